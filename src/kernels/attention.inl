// Attention over one 128-position tile, and storing keys and values, written once over 16 virtual lanes: included by
// the ops_*.cc files after ops.inl. Lanes run across keys for the scores and across head_dim for the values, so no
// reduction crosses lanes but the softmax sum, which uses the fixed tree.
#include <cstring>
#include <utility>

namespace dspark {
namespace {

struct KvF32 {
  static constexpr int kBytes = 4;
  static F32 load(const uint8_t* p) { return f32_load(reinterpret_cast<const float*>(p)); }
};
struct KvF16 {
  static constexpr int kBytes = 2;
  static F32 load(const uint8_t* p) { return f16_load(reinterpret_cast<const uint16_t*>(p)); }
};
struct KvBF16 {
  static constexpr int kBytes = 2;
  static F32 load(const uint8_t* p) { return bf16_load(reinterpret_cast<const uint16_t*>(p)); }
};
struct KvQ8 {
  static constexpr int kBytes = 1;
  static F32 load(const uint8_t* p) { return i8_load(reinterpret_cast<const int8_t*>(p)); }
};

inline const uint16_t* key_scales(const KvLayout& layout, const uint8_t* keys) {
  return reinterpret_cast<const uint16_t*>(keys + int64_t{kTilePositions} * layout.head_dim);
}

// Scores of kQ queries with kM micro-tiles of 16 keys: sums over head_dim in ascending order. With q8_0, sums of 32
// dimensions, each then scaled.
template <class Kv, int kQ, int kM>
inline void score_micro(const KvLayout& layout, const uint8_t* keys, int micro, const AttentionQuery* queries,
                        float (*scores)[kTilePositions]) {
  const int dim = layout.head_dim;
  const uint8_t* base[kM];
  for (int m = 0; m < kM; ++m) base[m] = keys + int64_t{micro + m} * dim * kMicroTile * Kv::kBytes;
  F32 acc[kQ][kM];
  for (int q = 0; q < kQ; ++q) {
    for (int m = 0; m < kM; ++m) acc[q][m] = f32_zero();
  }
  constexpr bool kScaled = Kv::kBytes == 1;
  const int step = kScaled ? 32 : dim;
  for (int first = 0; first < dim; first += step) {
    F32 part[kQ][kM];
    for (int q = 0; q < kQ; ++q) {
      for (int m = 0; m < kM; ++m) part[q][m] = f32_zero();
    }
    for (int d = first; d < first + step; ++d) {
      F32 k[kM];
      for (int m = 0; m < kM; ++m) k[m] = Kv::load(base[m] + d * kMicroTile * Kv::kBytes);
      for (int q = 0; q < kQ; ++q) {
        const F32 x = f32_set(queries[q].q[d]);
        for (int m = 0; m < kM; ++m) part[q][m] = fma(x, k[m], part[q][m]);
      }
    }
    for (int q = 0; q < kQ; ++q) {
      for (int m = 0; m < kM; ++m) {
        if constexpr (kScaled) {
          const uint16_t* scales = key_scales(layout, keys) + (int64_t{micro + m} * (dim / 32) + first / 32) * 16;
          acc[q][m] = fma(part[q][m], f16_load(scales), acc[q][m]);
        } else {
          acc[q][m] = part[q][m];
        }
      }
    }
  }
  for (int q = 0; q < kQ; ++q) {
    for (int m = 0; m < kM; ++m) f32_store(scores[q] + (micro + m) * kMicroTile, acc[q][m]);
  }
}

// out[q] += sum over keys [first, last] of weights[q][key] * value[key], in ascending order of the keys, for the
// dimensions [d, d + 16 kC).
template <class Kv, int kQ, int kC>
inline void value_columns(const KvLayout& layout, const uint8_t* values, int first, int last,
                          const float (*weights)[kTilePositions], int d, AttentionPartial* const* out) {
  const int dim = layout.head_dim;
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(values + int64_t{kTilePositions} * dim);
  F32 acc[kQ][kC];
  for (int q = 0; q < kQ; ++q) {
    for (int c = 0; c < kC; ++c) acc[q][c] = f32_zero();
  }
  for (int key = first; key <= last; ++key) {
    F32 v[kC];
    for (int c = 0; c < kC; ++c) v[c] = Kv::load(values + (int64_t{key} * dim + d + 16 * c) * Kv::kBytes);
    for (int q = 0; q < kQ; ++q) {
      const F32 weight = f32_set(weights[q][key]);
      for (int c = 0; c < kC; ++c) {
        if constexpr (Kv::kBytes == 1) {
          const F32 scale = f32_set(half_to_float(scales[key * (dim / 32) + (d + 16 * c) / 32]));
          acc[q][c] = fma(weight * scale, v[c], acc[q][c]);
        } else {
          acc[q][c] = fma(weight, v[c], acc[q][c]);
        }
      }
    }
  }
  for (int q = 0; q < kQ; ++q) {
    for (int c = 0; c < kC; ++c) f32_store(out[q]->out + d + 16 * c, acc[q][c]);
  }
}

template <class Kv, int kQ>
inline void value_rows(const KvLayout& layout, const uint8_t* values, int first, int last,
                       const float (*weights)[kTilePositions], AttentionPartial* const* out) {
  constexpr int kC = kQ >= kValueQueries ? 1 : 2;
  int d = 0;
  for (; d + 16 * kC <= layout.head_dim; d += 16 * kC) {
    value_columns<Kv, kQ, kC>(layout, values, first, last, weights, d, out);
  }
  for (; d < layout.head_dim; d += 16) value_columns<Kv, kQ, 1>(layout, values, first, last, weights, d, out);
}

// Calls fn.operator()<n>() for n = min(count, kQueryTile).
template <class Fn>
inline int with_query_count(int count, Fn&& fn) {
  const int n = count < kQueryTile ? count : kQueryTile;
  [&]<int... kN>(std::integer_sequence<int, kN...>) {
    ((n == kN + 1 ? fn.template operator()<kN + 1>() : void()), ...);
  }
  (std::make_integer_sequence<int, kQueryTile>());
  return n;
}

// Turns scores of keys [first, last] into weights e^(s - max); the others become 0.
inline void softmax_part(float* scores, int first, int last, AttentionPartial* out) {
  float lane_index[16];
  for (int i = 0; i < 16; ++i) lane_index[i] = static_cast<float>(i);
  const F32 minus_infinity = f32_set(-__builtin_inff());
  const F32 low = f32_set(static_cast<float>(first)), high = f32_set(static_cast<float>(last) + 1.0f);
  const int begin = first / 16 * 16, end = last / 16 * 16 + 16;
  F32 best = minus_infinity;
  bool poison = false;
  for (int i = begin; i < end; i += 16) {
    const F32 key = f32_load(lane_index) + f32_set(static_cast<float>(i));
    F32 s = select(less(key, low), minus_infinity, f32_load(scores + i));
    s = select(less(key, high), s, minus_infinity);
    f32_store(scores + i, s);
    best = max(s, best);
    poison = poison || any(is_nan(s));
  }
  float lanes[16];
  f32_store(lanes, best);
  out->max = -__builtin_inff();
  for (float lane : lanes) out->max = lane > out->max ? lane : out->max;
  if (poison) out->max = __builtin_nanf("");
  F32 sum = f32_zero();
  for (int i = begin; i < end; i += 16) {
    const F32 weight = exp(f32_load(scores + i) - f32_set(out->max));
    f32_store(scores + i, weight);
    sum = sum + weight;
  }
  out->sum = lanes_sum(sum);
}

template <class Kv>
void attend_tile_typed(const KvLayout& layout, const uint8_t* data, int tile, int head, const AttentionQuery* queries,
                       int count, AttentionPartial* partials) {
  alignas(64) float scores[kMaxQueries][kTilePositions];
  const uint8_t* keys = data + layout.keys_offset(head);
  const uint8_t* values = data + layout.values_offset(head);
  const int start = tile * kTilePositions;
  int first[kMaxQueries], last[kMaxQueries];  // within the tile
  int micro_first = kTilePositions / kMicroTile, micro_end = 0;
  for (int i = 0; i < count; ++i) {
    first[i] = queries[i].first > start ? queries[i].first - start : 0;
    last[i] = queries[i].last - start < kTilePositions - 1 ? queries[i].last - start : kTilePositions - 1;
    partials[i].empty = first[i] > last[i];
    if (partials[i].empty) continue;
    micro_first = first[i] / kMicroTile < micro_first ? first[i] / kMicroTile : micro_first;
    micro_end = last[i] / kMicroTile + 1 > micro_end ? last[i] / kMicroTile + 1 : micro_end;
  }
  for (int i = 0; i < count;) {
    i += with_query_count(count - i, [&]<int kQ>() {
      int m = micro_first;
      for (; m + kMicroPairs <= micro_end; m += kMicroPairs) {
        score_micro<Kv, kQ, kMicroPairs>(layout, keys, m, queries + i, scores + i);
      }
      for (; m < micro_end; ++m) score_micro<Kv, kQ, 1>(layout, keys, m, queries + i, scores + i);
    });
  }
  for (int i = 0; i < count; ++i) {
    if (!partials[i].empty) softmax_part(scores[i], first[i], last[i], &partials[i]);
  }
  // Neighbours that look at the same keys share each value's load.
  for (int i = 0; i < count;) {
    int same = 1;
    while (i + same < count && first[i + same] == first[i] && last[i + same] == last[i]) ++same;
    if (partials[i].empty) {
      i += same;
      continue;
    }
    AttentionPartial* out[kMaxQueries];
    for (int j = 0; j < same; ++j) out[j] = &partials[i + j];
    for (int j = 0; j < same;) {
      j += with_query_count(
          same - j, [&]<int kQ>() { value_rows<Kv, kQ>(layout, values, first[i], last[i], scores + i + j, out + j); });
    }
    i += same;
  }
}

void attend_tile(const KvLayout& layout, const uint8_t* data, int tile, int head, const AttentionQuery* queries,
                 int count, AttentionPartial* partials) {
  switch (layout.type) {
    case DType::kF32:
      return attend_tile_typed<KvF32>(layout, data, tile, head, queries, count, partials);
    case DType::kBF16:
      return attend_tile_typed<KvBF16>(layout, data, tile, head, queries, count, partials);
    case DType::kQ8_0:
      return attend_tile_typed<KvQ8>(layout, data, tile, head, queries, count, partials);
    default:
      return attend_tile_typed<KvF16>(layout, data, tile, head, queries, count, partials);
  }
}

inline float exp_one(float x) {
  float lanes[16];
  f32_store(lanes, exp(f32_set(x)));
  return lanes[0];
}

void merge(AttentionPartial* total, const AttentionPartial& part, int head_dim) {
  if (part.empty) return;
  if (total->empty) {
    total->max = part.max;
    total->sum = part.sum;
    std::memcpy(total->out, part.out, static_cast<size_t>(head_dim) * sizeof(float));
    total->empty = false;
    return;
  }
  const float top = part.max > total->max ? part.max : total->max;
  const float old_factor = exp_one(total->max - top), new_factor = exp_one(part.max - top);
  total->sum = __builtin_fmaf(total->sum, old_factor, part.sum * new_factor);
  const F32 a = f32_set(old_factor), b = f32_set(new_factor);
  for (int d = 0; d < head_dim; d += 16) {
    f32_store(total->out + d, fma(f32_load(total->out + d), a, f32_load(part.out + d) * b));
  }
  total->max = top;
}

void finish(const AttentionPartial& total, int head_dim, float* out) {
  const F32 sum = f32_set(total.sum);
  for (int d = 0; d < head_dim; d += 16) f32_store(out + d, f32_load(total.out + d) / sum);
}

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
    std::memcpy(values + int64_t{kTilePositions} * dim + int64_t{slot} * (dim / 32) * 2, scales,
                static_cast<size_t>(dim / 32) * 2);
  }
}

}  // namespace
}  // namespace dspark
