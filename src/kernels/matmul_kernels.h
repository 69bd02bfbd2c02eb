// The innermost functions of the matrix product, one table per instruction set. Called by matmul.cc only, on workers.
#pragma once

#include <cstdint>

#include "kernels/activations.h"
#include "kernels/isa.h"

namespace dspark {

inline constexpr int kMaxTile = 8;  // tokens that share one pass over a strip

// The tokens of one tile.
struct TokenTile {
  const ActivationBlock* blocks[kMaxTile];  // [k / 32] each
  const int16_t* wide[kMaxTile];            // [k] each; null unless the kernels want it
  const float* floats[kMaxTile];            // [k] each, for float weights
  float* out[kMaxTile];                     // where the tile's first output row goes, per token
  const uint8_t* next;                      // weights to fetch into cache meanwhile, `next_bytes` for each piece
  int next_bytes;
};

// One strip of 16 output rows times `tile` tokens: 16 values to each out[t]. `strip` is packed or unpacked, `pieces`
// is k / 32 (for float weights: k).
using StripFn = void (*)(const uint8_t* strip, int pieces, const TokenTile& tile);
// The same for two strips that lie `stride` bytes apart: 32 values to each out[t].
using PairFn = void (*)(const uint8_t* strip, int64_t stride, int pieces, const TokenTile& tile);

struct TypeKernels {
  StripFn packed[kMaxTile];      // [tokens - 1]; null above packed_tile
  PairFn packed_pair[kMaxTile];  // null where two strips at once bring nothing
  StripFn unpacked[kMaxTile];    // null, like unpack, where strips are always read packed
  PairFn unpacked_pair[kMaxTile];
  void (*unpack)(const uint8_t* strip, int pieces, uint8_t* out);
  int unpacked_piece_bytes;
};

struct MatmulKernels {
  Isa isa;
  int tile;         // most tokens of one pass
  bool wants_wide;  // 8-bit weights read Activations::wide
  TypeKernels types[kDTypeCount];
};

const MatmulKernels& matmul_kernels(Isa isa);
extern const MatmulKernels kPortableMatmul;
extern const MatmulKernels kAvx2Matmul;
extern const MatmulKernels kAvx512Matmul;

}  // namespace dspark
