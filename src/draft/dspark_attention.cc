// Attention of dspark_pass.h: slots look at the context's keys and values in the KV blocks, tile by tile in the order
// of the positions, and then at the slots of their own block.
#include <algorithm>

#include "base/exact_math.h"
#include "draft/dspark_pass.inl"

namespace dspark {

// Of the first `rows` positions.
void DsparkPass::rotations(int rows) {
  const size_t half = frequencies_.size();
  cos_.ensure(static_cast<size_t>(rows) * half);
  sin_.ensure(static_cast<size_t>(rows) * half);
  for_each_row(rows, [&](int row) {
    const double position = positions_[static_cast<size_t>(row)];
    for (size_t i = 0; i < half; ++i) {
      const double angle = position * frequencies_[i];
      cos_[static_cast<size_t>(row) * half + i] = static_cast<float>(exact_cos(angle));
      sin_[static_cast<size_t>(row) * half + i] = static_cast<float>(exact_sin(angle));
    }
  });
}

void DsparkPass::attention(std::span<const DraftBlock> blocks, int layer) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const int dim = shape_.head_dim, kv_heads = shape_.kv_heads;
  attended_.resize(rows_, shape_.q_dim());
  for_each_row(rows_, [&](int row) {
    const float* cos = cos_.data() + int64_t{row} * (dim / 2);
    const float* sin = sin_.data() + int64_t{row} * (dim / 2);
    const auto turn = [&](float* heads, int count, const NormWeights& norm) {
      for (int head = 0; head < count; ++head) {
        float* x = heads + (int64_t{row} * count + head) * dim;
        ops_.rms_norm(x, norm.data(), dim, shape_.norm_eps, x);
        ops_.rope(x, cos, sin, dim);
      }
    };
    turn(q_.data(), shape_.heads, weights.q_norm);
    turn(k_.data(), kv_heads, weights.k_norm);
    ops_.scale(q_.data() + int64_t{row} * shape_.q_dim(), shape_.query_scale, shape_.q_dim());
  });
  pool_.run(static_cast<int>(groups_.size()) * kv_heads, [&](int task) {
    const SlotGroup& group = groups_[static_cast<size_t>(task / kv_heads)];
    attend_group(blocks[static_cast<size_t>(group.block)], group, layer, task % kv_heads);
  });
  for_each_row(rows_, [&](int row) { attended_.quantise(ops_, matmul_, row); });
}

void DsparkPass::attend_group(const DraftBlock& block, const SlotGroup& group, int layer, int kv_head) {
  struct Scratch {
    Buffer<uint8_t> tile;  // keys and values of the block's slots, one head
    Buffer<float> out;     // [kMaxQueries, 2, head_dim]
  };
  thread_local Scratch scratch;
  const int dim = shape_.head_dim, shared = shape_.group(), window = shape_.layer_window(layer);
  const int first_row = first_rows_[static_cast<size_t>(group.block)];
  scratch.tile.ensure(static_cast<size_t>(slot_kv_.tile_bytes()));
  scratch.out.ensure(static_cast<size_t>(kMaxQueries * 2 * dim));
  for (int j = 0; j < block.slots; ++j) {
    const int64_t at = int64_t{first_row + j} * shape_.kv_dim() + kv_head * dim;
    ops_.store_kv(slot_kv_, scratch.tile.data(), 0, j, k_.data() + at, v_.data() + at);
  }
  AttentionQuery queries[kMaxQueries];
  AttentionPartial totals[kMaxQueries], parts[kMaxQueries];
  const int count = group.count * shared;
  int first_seen = block.anchor;
  for (int i = 0; i < count; ++i) {
    const int slot = group.first + i / shared;
    const int64_t at = int64_t{first_row + slot} * shape_.q_dim() + (kv_head * shared + i % shared) * dim;
    const int local = window > 0 ? block.anchor + slot - window + 1 : 0;
    const int first = std::max({0, block.context_first, local});
    first_seen = std::min(first_seen, first);
    queries[i] = {q_.data() + at, attended_.floats.data() + at, first, block.anchor - 1};
    totals[i] = {0.0f, 0.0f, scratch.out.data() + int64_t{2 * i} * dim, true};
    parts[i] = {0.0f, 0.0f, scratch.out.data() + int64_t{2 * i + 1} * dim, true};
  }
  const auto merge = [&] {
    for (int i = 0; i < count; ++i) ops_.merge(&totals[i], parts[i], dim);
  };
  const auto data = [&](int tile) {
    return block.blocks[static_cast<size_t>(tile)] + kv_offset_ + layer * kv_.tile_bytes();
  };
  const int last_tile = (block.anchor - 1) / kTilePositions;
  for (int tile = first_seen / kTilePositions; first_seen < block.anchor && tile <= last_tile; ++tile) {
    const uint8_t* next = tile < last_tile ? data(tile + 1) + kv_.keys_offset(kv_head) : nullptr;
    ops_.attend_tile(kv_, data(tile), tile, kv_head, queries, count, next, parts);
    merge();
  }
  for (int i = 0; i < count; ++i) {
    queries[i].first = 0;
    queries[i].last = config_.causal ? group.first + i / shared : block.slots - 1;
  }
  ops_.attend_tile(slot_kv_, scratch.tile.data(), 0, 0, queries, count, nullptr, parts);
  merge();
  for (int i = 0; i < count; ++i) ops_.finish(totals[i], dim, queries[i].out);
}

}  // namespace dspark
