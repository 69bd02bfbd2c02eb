// The gate of the MLP for training: out = silu(gate) * up, and its gradient. n values.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace dspark {

void swiglu(ThreadPool& pool, int64_t n, const float* gate, const float* up, float* out);
// dgate and dup are written.
void swiglu_backward(ThreadPool& pool, int64_t n, const float* gate, const float* up, const float* dout, float* dgate,
                     float* dup);

}  // namespace dspark
