// RMSNorm for training: y = x / rms(x) * weight, row by row, and its gradient.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace dspark {

// x, y [rows, n]; inverse [rows] gets 1 / rms for the way back.
void rms_norm(ThreadPool& pool, int64_t rows, int64_t n, const float* x, const float* weight, float eps, float* y,
              float* inverse);

// Adds to dx [rows, n] and dweight [n]; x and inverse as above.
void rms_norm_backward(ThreadPool& pool, int64_t rows, int64_t n, const float* x, const float* weight,
                       const float* inverse, const float* dy, float* dx, float* dweight);

}  // namespace dspark
