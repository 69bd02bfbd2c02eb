// Attention over one 128-position tile, written once over 16 virtual lanes: included by the ops_*.cc files after
// ops.inl. Lanes run across keys for the scores and across head_dim for the values, so no reduction crosses lanes but
// the softmax sum, which uses the fixed tree. How many queries, keys and dimensions share a register tile changes no
// bit: each sum is made in its own lane, in ascending order.
#include <cstring>
#include <type_traits>
#include <utility>

namespace dspark {
namespace {

// How elements of a KV type are read. Scaled: they are codes, with a scale for each position and 32 dimensions. Floats:
// how they are read when they were converted before.
struct KvF32 {
  using Element = float;
  using Floats = KvF32;
  static constexpr bool kScaled = false;
  static F32 load(const Element* p) { return f32_load(p); }
};
struct KvF16 {
  using Element = uint16_t;
  using Floats = KvF32;
  static constexpr bool kScaled = false;
  static F32 load(const Element* p) { return f16_load(p); }
};
struct KvBF16 {
  using Element = uint16_t;
  using Floats = KvF32;
  static constexpr bool kScaled = false;
  static F32 load(const Element* p) { return bf16_load(p); }
};
struct KvQ8Floats {
  using Element = float;
  using Floats = KvQ8Floats;
  static constexpr bool kScaled = true;
  static F32 load(const Element* p) { return f32_load(p); }
};
struct KvQ8 {
  using Element = int8_t;
  using Floats = KvQ8Floats;
  static constexpr bool kScaled = true;
  static F32 load(const Element* p) { return i8_load(p); }
};

// Where more queries share what is loaded than two register tiles hold, it is converted once for all of them, into a
// buffer in L1.
constexpr int kDirectQueries = 2 * kQueries;
constexpr int kConvertedFloats = 16 * kMaxHeadDim;
// How many keys of `dim` elements are converted at a time: whole micro-tiles, within 16 KiB where that holds one.
constexpr int converted_keys(int dim) { return dim < 256 ? kConvertedFloats / 2 / dim / kMicroTile * kMicroTile : 16; }

template <class Kv>
constexpr bool kIsFloat = std::is_same_v<Kv, typename Kv::Floats>;
// Positions [first, last] within the tile; none if first > last.
struct Span {
  int first;
  int last;
  bool empty() const { return first > last; }
};
inline bool operator==(Span a, Span b) { return a.first == b.first && a.last == b.last; }
inline Span common(Span a, Span b) {
  return {a.first > b.first ? a.first : b.first, a.last < b.last ? a.last : b.last};
}
// From the first to the last position of either.
inline Span around(Span a, Span b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {a.first < b.first ? a.first : b.first, a.last > b.last ? a.last : b.last};
}

// One call of attend_tile.
struct TileWork {
  int dim;
  int count;
  const AttentionQuery* queries;
  AttentionPartial* partials;
  int64_t ahead;  // from what is loaded to what memory is asked for meanwhile, in bytes: values, then the next keys
  Span spans[kMaxQueries];
  alignas(64) float scores[kMaxQueries][kTilePositions];  // then weights
  alignas(64) float converted[kConvertedFloats];

  Span span_of(int first, int end) const {
    Span out = {0, -1};
    for (int i = first; i < end; ++i) out = around(out, spans[i]);
    return out;
  }
};

// How many sums of 16 lanes each of `queries` queries may have in registers: a power of two.
constexpr int sums_each(int queries) {
  int out = 1;
  while (out < 8 && 2 * out * queries <= kSums) out *= 2;
  return out;
}

// Calls fn.operator()<n>(first) for the queries [begin, end) in parts [first, first + n) that are as even as can be.
template <int kAtMost, class Fn>
inline void in_parts(int begin, int end, Fn&& fn) {
  for (int first = begin; first < end;) {
    const int parts = (end - first + kAtMost - 1) / kAtMost;
    const int n = (end - first + parts - 1) / parts;
    [&]<int... kN>(std::integer_sequence<int, kN...>) {
      ((n == kN + 1 ? fn.template operator()<kN + 1>(first) : void()), ...);
    }
    (std::make_integer_sequence<int, kAtMost>());
    first += n;
  }
}

// Asks memory for the line `ahead` bytes behind p, into L2. Floats are not worth it: they were converted into L1.
template <class Kv>
inline void fetch(const typename Kv::Element* p, int64_t ahead) {
  if constexpr (!kIsFloat<Kv>)
    __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<intptr_t>(p) + ahead), 0, 2);
}

// Scores of the queries first to first + kQ - 1 with kM micro-tiles: sums over head_dim in ascending order. With
// scales, sums of 32 dimensions, each then scaled.
template <class Kv, int kQ, int kM>
inline void score_block(TileWork& work, int first, const typename Kv::Element* keys, int micro,
                        const uint16_t* scales) {
  const int dim = work.dim;
  const int64_t ahead = work.ahead;
  const float* queries[kQ];
  for (int q = 0; q < kQ; ++q) queries[q] = work.queries[first + q].q;
  float* scores = work.scores[first] + micro * kMicroTile;
  const int step = Kv::kScaled ? 32 : dim;
  for (int begin = 0; begin < dim; begin += step) {
    F32 sums[kQ][kM];
    for (int q = 0; q < kQ; ++q) {
      for (int m = 0; m < kM; ++m) sums[q][m] = f32_zero();
    }
    for (int d = begin; d < begin + step; ++d) {
      F32 k[kM];
      for (int m = 0; m < kM; ++m) {
        k[m] = Kv::load(keys + (m * dim + d) * kMicroTile);
        fetch<Kv>(keys + (m * dim + d) * kMicroTile, ahead);
      }
      for (int q = 0; q < kQ; ++q) {
        const F32 x = f32_set(queries[q][d]);
        for (int m = 0; m < kM; ++m) sums[q][m] = fma(x, k[m], sums[q][m]);
      }
    }
    for (int q = 0; q < kQ; ++q) {
      for (int m = 0; m < kM; ++m) {
        float* out = scores + q * kTilePositions + m * kMicroTile;
        if constexpr (Kv::kScaled) {
          const F32 scale = f16_load(scales + ((micro + m) * (dim / 32) + begin / 32) * kMicroTile);
          sums[q][m] = fma(sums[q][m], scale, begin == 0 ? f32_zero() : f32_load(out));
        }
        f32_store(out, sums[q][m]);
      }
    }
  }
}

// Micro-tiles [micro, end) of `keys`, which starts with the first of them, for kQ queries: kM at a time, then the rest.
template <class Kv, int kQ, int kM>
inline void score_run(TileWork& work, int first, const typename Kv::Element* keys, int micro, int end,
                      const uint16_t* scales) {
  for (; micro + kM <= end; micro += kM, keys += kM * kMicroTile * work.dim) {
    score_block<Kv, kQ, kM>(work, first, keys, micro, scales);
  }
  if constexpr (kM > 1) score_run<Kv, kQ, kM / 2>(work, first, keys, micro, end, scales);
}

// Scores of all queries with the positions of `range` that they look at; keys[0] belongs to micro-tile `origin`.
template <class Kv>
inline void score_range(TileWork& work, const typename Kv::Element* keys, int origin, const uint16_t* scales,
                        Span range) {
  in_parts<kQueries>(0, work.count, [&]<int kQ>(int first) {
    const Span span = common(work.span_of(first, first + kQ), range);
    if (span.empty()) return;
    const int micro = span.first / kMicroTile;
    score_run<Kv, kQ, sums_each(kQ)>(work, first, keys + (micro - origin) * kMicroTile * work.dim, micro,
                                     span.last / kMicroTile + 1, scales);
  });
}

// Converts the keys or values that the queries look at, a part after the other, and calls fn(its first position, the
// positions of it that are looked at) for each.
template <class Kv, class Fn>
inline void for_converted(TileWork& work, const typename Kv::Element* from, Fn&& fn) {
  const Span all = work.span_of(0, work.count);
  const int dim = work.dim, step = converted_keys(dim);
  const int64_t ahead = work.ahead;
  for (int key = all.first / kMicroTile * kMicroTile; key <= all.last; key += step) {
    const Span range = common(all, {key, key + step - 1});
    const int count = (range.last / kMicroTile + 1) * kMicroTile - key;
    const typename Kv::Element* part = from + key * dim;
    float* const to = work.converted;
    for (int i = 0; i < count * dim; i += 16) {
      f32_store(to + i, Kv::load(part + i));
      fetch<Kv>(part + i, ahead);
    }
    fn(key, range);
  }
}

template <class Kv>
inline void score_all(TileWork& work, const typename Kv::Element* keys) {
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(keys + kTilePositions * work.dim);
  if (kIsFloat<Kv> || work.count <= kDirectQueries) {
    score_range<Kv>(work, keys, 0, scales, {0, kTilePositions - 1});
    return;
  }
  for_converted<Kv>(work, keys, [&](int key, Span range) {
    score_range<typename Kv::Floats>(work, work.converted, key / kMicroTile, scales, range);
  });
}

// The positions of a span's micro-tiles.
inline Span whole_micro_tiles(Span span) {
  return {span.first / kMicroTile * kMicroTile, span.last / kMicroTile * kMicroTile + kMicroTile - 1};
}

// The largest score; those outside of the span become -infinity.
inline float largest_score(float* scores, Span span) {
  const Span all = whole_micro_tiles(span);
  for (int i = all.first; i < span.first; ++i) scores[i] = -__builtin_inff();
  for (int i = span.last + 1; i <= all.last; ++i) scores[i] = -__builtin_inff();
  F32 best = f32_set(-__builtin_inff());
  for (int i = all.first; i < all.last; i += 16) best = max(f32_load(scores + i), best);
  return lanes_max(best);
}

// Turns scores into weights e^(score - top) and returns their sum. With NaN among the scores the sum is NaN, and so is
// what the values make of the weights, whatever `top` is.
inline float exponentiate(float* scores, Span span, float top) {
  const Span all = whole_micro_tiles(span);
  const F32 shift = f32_set(top);
  F32 sum = f32_zero();
  for (int i = all.first; i < all.last; i += 16) {
    const F32 weight = exp_to_1(f32_load(scores + i) - shift);
    f32_store(scores + i, weight);
    sum = sum + weight;
  }
  return lanes_sum(sum);
}

// out[q][d .. d + 16 kC) += sum over the keys of `span` of weights[q][key] * value[key][d ..], in ascending order of
// the keys. values and weights start with the first key of the span.
template <class Kv, int kQ, int kC>
inline void value_block(const typename Kv::Element* values, int dim, int keys, const float* weights, int d,
                        int64_t ahead, float* const* out) {
  F32 sums[kQ][kC];
  for (int q = 0; q < kQ; ++q) {
    for (int c = 0; c < kC; ++c) sums[q][c] = f32_load(out[q] + d + 16 * c);
  }
  values += d;
  for (int key = 0; key < keys; ++key, values += dim, ++weights) {
    F32 v[kC];
    for (int c = 0; c < kC; ++c) v[c] = Kv::load(values + 16 * c);
    for (int i = 0; i < 16 * kC; i += 64 / static_cast<int>(sizeof(*values))) fetch<Kv>(values + i, ahead);
    for (int q = 0; q < kQ; ++q) {
      const F32 weight = f32_set(weights[q * kTilePositions]);
      for (int c = 0; c < kC; ++c) sums[q][c] = fma(weight, v[c], sums[q][c]);
    }
  }
  for (int q = 0; q < kQ; ++q) {
    for (int c = 0; c < kC; ++c) f32_store(out[q] + d + 16 * c, sums[q][c]);
  }
}

template <class Kv, int kQ, int kC>
inline void value_run(const typename Kv::Element* values, int dim, int keys, const float* weights, int d, int end,
                      int64_t ahead, float* const* out) {
  for (; d + 16 * kC <= end; d += 16 * kC) value_block<Kv, kQ, kC>(values, dim, keys, weights, d, ahead, out);
  if constexpr (kC > 1) value_run<Kv, kQ, kC / 2>(values, dim, keys, weights, d, end, ahead, out);
}

// The values of `span` for the queries first to first + kQ - 1, all of which look at all of it. With scales, each
// weight is multiplied by the scale of its 32 dimensions first.
template <class Kv, int kQ>
inline void value_span(TileWork& work, int first, Span span, const typename Kv::Element* values,
                       const uint16_t* scales) {
  float* out[kQ];
  for (int q = 0; q < kQ; ++q) out[q] = work.partials[first + q].out;
  const int keys = span.last - span.first + 1;
  const float* weights = work.scores[first];
  if constexpr (!Kv::kScaled) {
    value_run<Kv, kQ, sums_each(kQ)>(values, work.dim, keys, weights + span.first, 0, work.dim, work.ahead, out);
  } else {
    alignas(64) float scaled[kQ][kTilePositions];
    constexpr int kC = sums_each(kQ) < 2 ? sums_each(kQ) : 2;
    for (int d = 0; d < work.dim; d += 32) {
      for (int i = span.first / 16 * 16; i <= span.last; i += 16) {
        const F32 scale = f16_load(scales + d / 32 * kTilePositions + i);
        for (int q = 0; q < kQ; ++q) f32_store(scaled[q] + i, f32_load(weights + q * kTilePositions + i) * scale);
      }
      value_run<Kv, kQ, kC>(values, work.dim, keys, scaled[0] + span.first, d, d + 32, work.ahead, out);
    }
  }
}

// Calls fn(first query, end query, span) for runs of queries whose span is the same, empty ones left out.
template <class SpanOf, class Fn>
inline void for_equal_spans(int begin, int end, SpanOf&& span_of, Fn&& fn) {
  for (int i = begin; i < end;) {
    const Span span = span_of(i);
    int last = i + 1;
    while (last < end && span_of(last) == span) ++last;
    if (!span.empty()) fn(i, last, span);
    i = last;
  }
}

// The values of `range`, of which values[0] belongs to position `origin`. Queries share each value's load where all of
// them look at it: rows that follow each other differ only in the last positions (and, in a window, the first).
template <class Kv>
inline void value_range(TileWork& work, const typename Kv::Element* values, int origin, const uint16_t* scales,
                        Span range) {
  const auto take = [&](int begin, int end, Span span) {
    in_parts<kQueries>(begin, end, [&]<int kQ>(int first) {
      value_span<Kv, kQ>(work, first, span, values + (span.first - origin) * work.dim, scales);
    });
  };
  const auto within = [&](Span part) {
    for_equal_spans(
        0, work.count, [&](int i) { return common(work.spans[i], part); }, take);
  };
  Span shared = range;
  for (int i = 0; i < work.count; ++i) shared = common(shared, work.spans[i]);
  if (shared.empty()) return within(range);
  within({range.first, shared.first - 1});
  take(0, work.count, shared);
  within({shared.last + 1, range.last});
}

template <class Kv>
inline void value_all(TileWork& work, const typename Kv::Element* values) {
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(values + kTilePositions * work.dim);
  if (kIsFloat<Kv> || work.count <= kDirectQueries) {
    value_range<Kv>(work, values, 0, scales, {0, kTilePositions - 1});
    return;
  }
  for_converted<Kv>(work, values, [&](int key, Span range) {
    value_range<typename Kv::Floats>(work, work.converted, key, scales, range);
  });
}

template <class Kv>
void attend_tile_typed(const KvLayout& layout, const uint8_t* data, int tile, int head, const AttentionQuery* queries,
                       int count, const uint8_t* next, AttentionPartial* partials) {
  TileWork work;
  work.dim = layout.head_dim;
  work.count = count;
  work.queries = queries;
  work.partials = partials;
  const int start = tile * kTilePositions;
  for (int i = 0; i < count; ++i) {
    work.spans[i] = common({queries[i].first - start, queries[i].last - start}, {0, kTilePositions - 1});
    partials[i].empty = work.spans[i].empty();
  }
  const uint8_t *keys = data + layout.keys_offset(head), *values = data + layout.values_offset(head);
  work.ahead = values - keys;
  score_all<Kv>(work, reinterpret_cast<const typename Kv::Element*>(keys));
  // In two rounds, so that one query's work hides the latency of the other's reductions.
  for (int i = 0; i < count; ++i) {
    if (!partials[i].empty) partials[i].max = largest_score(work.scores[i], work.spans[i]);
  }
  for (int i = 0; i < count; ++i) {
    if (partials[i].empty) continue;
    partials[i].sum = exponentiate(work.scores[i], work.spans[i], partials[i].max);
    std::memset(partials[i].out, 0, static_cast<size_t>(work.dim) * sizeof(float));
  }
  work.ahead = next == nullptr ? 0 : next - values;
  value_all<Kv>(work, reinterpret_cast<const typename Kv::Element*>(values));
}

void attend_tile(const KvLayout& layout, const uint8_t* data, int tile, int head, const AttentionQuery* queries,
                 int count, const uint8_t* next, AttentionPartial* partials) {
  switch (layout.type) {
    case DType::kF32:
      return attend_tile_typed<KvF32>(layout, data, tile, head, queries, count, next, partials);
    case DType::kBF16:
      return attend_tile_typed<KvBF16>(layout, data, tile, head, queries, count, next, partials);
    case DType::kQ8_0:
      return attend_tile_typed<KvQ8>(layout, data, tile, head, queries, count, next, partials);
    default:
      return attend_tile_typed<KvF16>(layout, data, tile, head, queries, count, next, partials);
  }
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
  float factors[16] = {total->max - top, part.max - top};
  f32_store(factors, exp(f32_load(factors)));
  total->sum = __builtin_fmaf(total->sum, factors[0], part.sum * factors[1]);
  const F32 a = f32_set(factors[0]), b = f32_set(factors[1]);
  for (int d = 0; d < head_dim; d += 16) {
    f32_store(total->out + d, fma(f32_load(total->out + d), a, f32_load(part.out + d) * b));
  }
  total->max = top;
}

void finish(const AttentionPartial& total, int head_dim, float* out) {
  const F32 sum = f32_set(total.sum);
  for (int d = 0; d < head_dim; d += 16) f32_store(out + d, f32_load(total.out + d) / sum);
}

}  // namespace
}  // namespace dspark
