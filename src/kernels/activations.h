// Rows of activations as the matmul kernels read them: int8 in blocks of 32 (numerics.md, "Weights and activations").
// Owned by the step's workspace; filled by `quantise` (ops.h) row by row, so different rows may be filled by
// different workers.
#pragma once

#include <cstdint>

#include "base/buffer.h"
#include "kernels/packed_layout.h"

namespace dspark {

// 32 activations: x ~ scale * q. A block with a non-finite value has q = 0 and scale NaN.
struct ActivationBlock {
  int8_t q[kPiece];
  float scale;       // amax / 127
  float scaled_sum;  // scale * sum, rounded once
  int32_t sum;       // of all q
  int32_t sum_low;   // of q[0..15]
};
static_assert(sizeof(ActivationBlock) == 48);

struct Activations {
  int rows = 0;
  int64_t k = 0;                   // multiple of 32
  Buffer<ActivationBlock> blocks;  // [rows, k / 32]
  Buffer<int16_t> wide;            // [rows, k]: q again, for 8-bit weights on AVX2
  void resize(int rows_now, int64_t k_now) {
    rows = rows_now;
    k = k_now;
    blocks.ensure(static_cast<size_t>(rows * (k / kPiece)));
    wide.ensure(static_cast<size_t>(rows * k));
  }
  ActivationBlock* row(int64_t r) { return blocks.data() + r * (k / kPiece); }
  const ActivationBlock* row(int64_t r) const { return blocks.data() + r * (k / kPiece); }
  int16_t* wide_row(int64_t r) { return wide.data() + r * k; }
  const int16_t* wide_row(int64_t r) const { return wide.data() + r * k; }
};

}  // namespace dspark
