// Products with trainable matrices: y = x W^T and its gradients. W is [outputs, inputs], x [rows, inputs].
#pragma once

#include "train/gemm.h"
#include "train/parameters.h"

namespace dspark {

inline void linear(ThreadPool& pool, int64_t rows, const Parameter& weight, const float* x, float* y,
                   bool add = false) {
  const int64_t outputs = weight.shape[0], inputs = weight.shape[1];
  multiply(&pool, rows, outputs, inputs, {x, inputs}, transposed(weight.data(), inputs), y, outputs, add);
}

// The weight's gradient grows by dy^T x; dx, if not null, becomes (or grows by, if `add`) dy W.
inline void linear_backward(ThreadPool& pool, int64_t rows, Parameter& weight, const float* x, const float* dy,
                            float* dx, bool add) {
  const int64_t outputs = weight.shape[0], inputs = weight.shape[1];
  if (rows == 0) return;
  multiply(&pool, outputs, inputs, rows, transposed(dy, outputs), {x, inputs}, weight.grad(), inputs, true);
  if (dx != nullptr) multiply(&pool, rows, inputs, outputs, {dy, outputs}, {weight.data(), inputs}, dx, inputs, add);
}

}  // namespace dspark
