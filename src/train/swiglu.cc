// See swiglu.h.
#include "train/swiglu.h"

#include <algorithm>
#include <cmath>

namespace dspark {
namespace {

constexpr int64_t kChunk = 8192;

template <class Fn>
void for_each_value(ThreadPool& pool, int64_t n, Fn&& fn) {
  pool.run(static_cast<int>((n + kChunk - 1) / kChunk), [&](int task) {
    for (int64_t i = task * kChunk; i < std::min(n, (task + 1) * kChunk); ++i) fn(i);
  });
}

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

}  // namespace

void swiglu(ThreadPool& pool, int64_t n, const float* gate, const float* up, float* out) {
  for_each_value(pool, n, [=](int64_t i) { out[i] = gate[i] * sigmoid(gate[i]) * up[i]; });
}

void swiglu_backward(ThreadPool& pool, int64_t n, const float* gate, const float* up, const float* dout, float* dgate,
                     float* dup) {
  for_each_value(pool, n, [=](int64_t i) {
    const float s = sigmoid(gate[i]);
    dup[i] = dout[i] * gate[i] * s;
    dgate[i] = dout[i] * up[i] * s * (1.0f + gate[i] * (1.0f - s));
  });
}

}  // namespace dspark
