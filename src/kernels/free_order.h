// What the fixed order of sums costs: the fastest variants we found that may add in any order, for the comparison in
// `dspark bench kernels` only (kernel_bench.h). AVX2; nothing else may call them.
#pragma once

#include <cstdint>

#include "kernels/activations.h"

namespace dspark {

// As Ops::rms_norm, with four sums side by side.
void free_rms_norm_avx2(const float* x, const float* weight, int n, float eps, float* out);

// One strip of Q4_1 (packed_layout.h) times one token: all integer dots of a strip row of pieces are scaled in pairs
// and two sums per row are kept, to be added at the end.
void free_q4_1_strip_avx2(const uint8_t* strip, int pieces, const ActivationBlock* x, float* out);

// One strip of F16 times one token: four sums per row over K, so that the latency of the multiply-add is hidden.
void free_f16_strip_avx2(const uint8_t* strip, int k, const float* x, float* out);

// sum of e^(x - max) over n values (a multiple of 64), four sums side by side, in float throughout.
float free_exp_sum_avx2(const float* x, int64_t n, float max);

}  // namespace dspark
