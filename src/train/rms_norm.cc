// See rms_norm.h.
#include "train/rms_norm.h"

#include <cmath>

#include "train/row_tasks.h"

namespace dspark {

void rms_norm(ThreadPool& pool, int64_t rows, int64_t n, const float* x, const float* weight, float eps, float* y,
              float* inverse) {
  for_each_row(pool, rows, [=](int64_t row) {
    const float* in = x + row * n;
    float squares = 0.0f;
    for (int64_t j = 0; j < n; ++j) squares += in[j] * in[j];
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
    inverse[row] = scale;
    for (int64_t j = 0; j < n; ++j) y[row * n + j] = in[j] * scale * weight[j];
  });
}

void rms_norm_backward(ThreadPool& pool, int64_t rows, int64_t n, const float* x, const float* weight,
                       const float* inverse, const float* dy, float* dx, float* dweight) {
  for_each_row(pool, rows, [=](int64_t row) {
    const float *in = x + row * n, *out = dy + row * n;
    float dot = 0.0f;  // of the gradient with x, through the mean square
    for (int64_t j = 0; j < n; ++j) dot += out[j] * weight[j] * in[j];
    const float scale = inverse[row], back = dot * scale * scale / static_cast<float>(n);
    for (int64_t j = 0; j < n; ++j) dx[row * n + j] += scale * (out[j] * weight[j] - in[j] * back);
  });
  add_over_rows(pool, rows, n, dweight,
                [=](int64_t row, int64_t j) { return dy[row * n + j] * x[row * n + j] * inverse[row]; });
}

}  // namespace dspark
