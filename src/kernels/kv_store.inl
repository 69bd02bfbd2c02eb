// Storing one position's key and value in its tile (kv_layout.h), written once over 16 virtual lanes: included by the
// ops_*.cc files after ops.inl.
#include <cstring>

namespace dspark {
namespace {

// Elements of one position in the KV type: halves through the vector conversions, q8_0 with its scales.
inline void convert_kv(const KvLayout& layout, const float* x, uint8_t* out, uint16_t* scales) {
  const int dim = layout.head_dim;
  if (layout.type == DType::kQ8_0) {
    for (int b = 0; b < dim / 32; ++b) {
      ActivationBlock block;
      quantise(x + 32 * b, 32, &block, nullptr);
      std::memcpy(out + 32 * b, block.q, 32);
      scales[b] = half_from_float(block.scale);
    }
    return;
  }
  for (int d = 0; d < dim; ++d) {
    if (layout.type == DType::kF32) {
      std::memcpy(out + 4 * d, x + d, 4);
    } else if (layout.type == DType::kBF16) {
      const uint16_t half = bf16_from_float(x[d]);
      std::memcpy(out + 2 * d, &half, 2);
    } else if (d % 16 == 0) {
      f16_store(reinterpret_cast<uint16_t*>(out) + d, f32_load(x + d));
    }
  }
}

template <class T>
inline void scatter_key(uint8_t* micro, int lane, const uint8_t* values, int dim) {
  T* out = reinterpret_cast<T*>(micro) + lane;
  const T* in = reinterpret_cast<const T*>(values);
  for (int d = 0; d < dim; ++d) out[d * kMicroTile] = in[d];
}

void store_kv(const KvLayout& layout, uint8_t* tile, int head, int slot, const float* key, const float* value) {
  const int dim = layout.head_dim;
  alignas(64) uint8_t converted[kMaxHeadDim * 4];
  uint16_t scales[kMaxHeadDim / 32];
  uint8_t* keys = tile + layout.keys_offset(head);
  convert_kv(layout, key, converted, scales);
  uint8_t* micro = keys + int64_t{slot / kMicroTile} * dim * kMicroTile * layout.element_bytes();
  const int lane = slot % kMicroTile;
  switch (layout.element_bytes()) {
    case 4:
      scatter_key<uint32_t>(micro, lane, converted, dim);
      break;
    case 2:
      scatter_key<uint16_t>(micro, lane, converted, dim);
      break;
    default:
      scatter_key<uint8_t>(micro, lane, converted, dim);
      uint16_t* key_scale = reinterpret_cast<uint16_t*>(keys + int64_t{kTilePositions} * dim);
      for (int b = 0; b < dim / 32; ++b) key_scale[(slot / kMicroTile * (dim / 32) + b) * 16 + lane] = scales[b];
  }
  uint8_t* values = tile + layout.values_offset(head);
  convert_kv(layout, value, values + int64_t{slot} * dim * layout.element_bytes(), scales);
  if (layout.type == DType::kQ8_0) {
    uint16_t* value_scales = reinterpret_cast<uint16_t*>(values + int64_t{kTilePositions} * dim);
    for (int b = 0; b < dim / 32; ++b) value_scales[b * kTilePositions + slot] = scales[b];
  }
}

}  // namespace
}  // namespace dspark
