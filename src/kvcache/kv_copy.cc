// See kv_copy.h.
#include "kvcache/kv_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dspark {
namespace {

// Lanes [first, last) of data laid out [micro-tiles][rows][kMicroTile], as keys and their scales are.
void copy_lanes(const uint8_t* from, uint8_t* to, int rows, int element_bytes, int first, int last) {
  const int row_bytes = kMicroTile * element_bytes;
  for (int start = first; start < last;) {
    const int micro = start / kMicroTile;
    const int end = std::min(last, (micro + 1) * kMicroTile);
    const int64_t micro_offset = int64_t{micro} * rows * row_bytes;
    if (end - start == kMicroTile) {
      std::memcpy(to + micro_offset, from + micro_offset, static_cast<size_t>(rows) * row_bytes);
    } else {
      const int64_t lane_offset = micro_offset + start % kMicroTile * element_bytes;
      const size_t bytes = static_cast<size_t>(end - start) * element_bytes;
      for (int row = 0; row < rows; ++row) {
        std::memcpy(to + lane_offset + row * row_bytes, from + lane_offset + row * row_bytes, bytes);
      }
    }
    start = end;
  }
}

void copy_values(const KvLayout& layout, const uint8_t* from, uint8_t* to, int first, int last) {
  const int64_t position_bytes = int64_t{layout.head_dim} * layout.element_bytes();
  std::memcpy(to + first * position_bytes, from + first * position_bytes,
              static_cast<size_t>((last - first) * position_bytes));
  if (layout.type != DType::kQ8_0) return;
  const int64_t scales = kTilePositions * position_bytes;
  for (int group = 0; group < layout.head_dim / 32; ++group) {
    const int64_t offset = scales + (int64_t{group} * kTilePositions + first) * 2;
    std::memcpy(to + offset, from + offset, static_cast<size_t>(last - first) * 2);
  }
}

int64_t total_bytes(const std::vector<KvLayout>& layers) {
  int64_t bytes = 0;
  for (const KvLayout& layer : layers) bytes += layer.tile_bytes();
  return bytes;
}

int64_t round_to_cache_line(int64_t bytes) { return (bytes + 63) / 64 * 64; }

void copy_layers(const std::vector<KvLayout>& layers, const uint8_t* from, uint8_t* to, int first, int last) {
  for (const KvLayout& layer : layers) {
    copy_kv_positions(layer, from, to, first, last);
    from += layer.tile_bytes();
    to += layer.tile_bytes();
  }
}

}  // namespace

void copy_kv_positions(const KvLayout& layout, const uint8_t* from, uint8_t* to, int first, int last) {
  if (first >= last) return;
  for (int head = 0; head < layout.kv_heads; ++head) {
    const int64_t keys = layout.keys_offset(head);
    copy_lanes(from + keys, to + keys, layout.head_dim, layout.element_bytes(), first, last);
    if (layout.type == DType::kQ8_0) {
      const int64_t scales = keys + int64_t{kTilePositions} * layout.head_dim;
      copy_lanes(from + scales, to + scales, layout.head_dim / 32, 2, first, last);
    }
    const int64_t values = layout.values_offset(head);
    copy_values(layout, from + values, to + values, first, last);
  }
}

KvBlockLayout::KvBlockLayout(std::vector<KvLayout> layers, std::vector<KvLayout> draft_layers)
    : layers_(std::move(layers)),
      draft_layers_(std::move(draft_layers)),
      draft_offset_(round_to_cache_line(total_bytes(layers_))),
      bytes_(draft_offset_ + round_to_cache_line(total_bytes(draft_layers_))) {}

void KvBlockLayout::copy_target(const uint8_t* from, uint8_t* to, int first, int last) const {
  copy_layers(layers_, from, to, first, last);
}

void KvBlockLayout::copy_draft(const uint8_t* from, uint8_t* to, int first, int last) const {
  copy_layers(draft_layers_, from + draft_offset_, to + draft_offset_, first, last);
}

}  // namespace dspark
