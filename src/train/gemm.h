// Single-precision matrix products for training, by oneDNN: C (+)= A B, either of them read transposed. What was
// measured against it is in docs/training.md. Any thread.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/thread_pool.h"

namespace dspark {

// Loads oneDNN, which only training needs; before the first product. An error where it is not installed.
Status load_gemm();

// Rows `stride` floats apart; `transposed`: the operand is the transpose of what lies there.
struct MatrixView {
  const float* data;
  int64_t stride;
  bool transposed = false;
};
inline MatrixView transposed(const float* data, int64_t stride) { return {data, stride, true}; }

// c [m, n], rows `stride` apart, = or (add) += a [m, k] b [k, n]. With a pool its workers share the work, else the
// caller does it all, as inside a task of the pool. The cut into tasks depends on the sizes alone, so that the number
// of threads does not change a bit; another instruction set may.
void multiply(ThreadPool* pool, int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b, float* c, int64_t stride,
              bool add);

}  // namespace dspark
