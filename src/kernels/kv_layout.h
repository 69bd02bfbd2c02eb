// How keys and values of one layer lie in a KV block of 128 positions (a tile). Pure data, any thread.
//
// A tile holds, per KV head: keys in 8 micro-tiles of 16 positions, transposed to [head_dim][16], so that lanes run
// across keys; then the values, plain [128][head_dim]. With q8_0, keys are followed by their scales f16
// [8][head_dim / 32][16] and values by theirs, f16 [head_dim / 32][128].
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace dspark {

inline constexpr int kTilePositions = 128;
inline constexpr int kMicroTile = 16;
inline constexpr int kMaxHeadDim = 512;

struct KvLayout {
  DType type = DType::kF16;  // f32, f16, bf16 or q8_0
  int kv_heads = 0;
  int head_dim = 0;  // multiple of 16 (of 32 with q8_0), at most kMaxHeadDim

  int element_bytes() const { return type == DType::kF32 ? 4 : type == DType::kQ8_0 ? 1 : 2; }
  int64_t scale_bytes() const { return type == DType::kQ8_0 ? int64_t{kTilePositions} * (head_dim / 32) * 2 : 0; }
  // Of the keys, or of the values, of one head in one tile.
  int64_t part_bytes() const { return int64_t{kTilePositions} * head_dim * element_bytes() + scale_bytes(); }
  int64_t tile_bytes() const { return 2 * kv_heads * part_bytes(); }
  int64_t keys_offset(int head) const { return head * 2 * part_bytes(); }
  int64_t values_offset(int head) const { return head * 2 * part_bytes() + part_bytes(); }
};

}  // namespace dspark
