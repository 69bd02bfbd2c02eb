// Reductions over a vocabulary and the scan of a draw, written once over 16 virtual lanes: included by the ops_*.cc
// files after their ops.inl. What each function returns does not depend on lanes or tiles: maxima, counts and sums of
// integers have no order.
#include <cstdint>

namespace dspark {
namespace {

constexpr float kLowest = -__FLT_MAX__;
constexpr int64_t kNoiseBlock = 64;  // tokens whose noise comes from 16 counters

// x[i .. i + 15]; -infinity from n on.
inline F32 load_logits(const float* x, int64_t i, int64_t n) {
  if (i + 16 <= n) return f32_load(x + i);
  float part[16];
  for (int64_t j = 0; j < 16; ++j) part[j] = i + j < n ? x[i + j] : -__builtin_inff();
  return f32_load(part);
}

inline uint32_t bits_at_least(F32 a, F32 floor) { return ~bits(less(a, floor)) & 0xFFFFu; }

// True if the tile of `maxima` (survey) can hold a value >= floor.
inline bool reaches(const float* maxima, int64_t tile_begin, F32 floor) {
  return bits_at_least(f32_load(maxima + tile_begin / 16), floor) != 0;
}

// Maximum and NaN of the values that pass by.
struct Extremes {
  F32 best = f32_set(-__builtin_inff());
  F32 nans = f32_zero();

  void add(F32 value) {
    best = max(value, best);
    nans = nans + select(is_nan(value), f32_set(1.0f), f32_zero());
  }
  bool any_nan() const { return lanes_sum(nans) != 0.0f; }
};

int64_t argmax(const float* x, int64_t n) {
  constexpr int64_t kTile = 1024;
  float top = -__builtin_inff();
  int64_t top_tile = 0;
  Extremes tile;
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t end = begin + kTile < n ? begin + kTile : n;
    tile.best = f32_set(-__builtin_inff());
    for (int64_t i = begin; i < end; i += 16) tile.add(load_logits(x, i, n));
    const float best = lanes_max(tile.best);
    if (best > top) top = best, top_tile = begin;
  }
  if (tile.any_nan()) return -1;
  for (int64_t i = top_tile; i < n; i += 16) {
    const uint32_t hits = bits_at_least(load_logits(x, i, n), f32_set(top));
    if (hits != 0) return i + __builtin_ctz(hits);
  }
  return -1;
}

bool survey(const float* x, int64_t n, float* maxima) {
  Extremes tile;
  for (int64_t begin = 0; begin < n; begin += kSurveyTile) {
    const int64_t end = begin + kSurveyTile < n ? begin + kSurveyTile : n;
    tile.best = f32_set(-__builtin_inff());
    for (int64_t i = begin; i < end; i += 16) tile.add(load_logits(x, i, n));
    f32_store(maxima + begin / 16, tile.best);
  }
  return !tile.any_nan();
}

int64_t collect(const float* x, const float* maxima, int64_t n, float floor, float ceiling, int32_t* ids) {
  const F32 low = f32_set(floor > kLowest ? floor : kLowest), high = f32_set(ceiling);
  int64_t count = 0;
  for (int64_t begin = 0; begin < n; begin += kSurveyTile) {
    if (!reaches(maxima, begin, low)) continue;
    const int64_t end = begin + kSurveyTile < n ? begin + kSurveyTile : n;
    for (int64_t i = begin; i < end; i += 16) {
      const F32 value = load_logits(x, i, n);
      uint32_t hits = bits_at_least(value, low) & bits(less(value, high));
      for (; hits != 0; hits &= hits - 1) ids[count++] = static_cast<int32_t>(i + __builtin_ctz(hits));
    }
  }
  return count;
}

// e^((x - max) / T) in units of 2^-kWeightBits, as high * 2^22 + low.
struct Weights {
  I32 high;
  I32 low;
};
inline Weights weights(F32 x, F32 max_value, F32 inverse_t) {
  const F32 w = exp((x - max_value) * inverse_t);
  const I32 high = to_i32(w * f32_set(0x1p20f));
  const F32 rest = fma(to_f32(high), f32_set(-0x1p-20f), w);  // exact
  return {high, to_i32(rest * f32_set(0x1p42f))};
}

inline int64_t joined(const int32_t* high, const int32_t* low, int i) {
  return static_cast<int64_t>(high[i]) * (1 << 22) + low[i];
}

int64_t exp_sum(const float* x, const float* maxima, int64_t n, float max_value, float inverse_t, float floor) {
  constexpr int kFlushTiles = 32;  // 512 vectors of |high| <= 2^20 and |low| <= 2^21 fit 32 bits
  const F32 low = f32_set(floor > kLowest ? floor : kLowest), top = f32_set(max_value), factor = f32_set(inverse_t);
  I32 sum_high = i32_set(0), sum_low = i32_set(0);
  int64_t total = 0;
  int tiles = 0;
  const auto flush = [&] {
    int32_t lanes_high[16], lanes_low[16];
    i32_store(lanes_high, sum_high);
    i32_store(lanes_low, sum_low);
    for (int i = 0; i < 16; ++i) total += joined(lanes_high, lanes_low, i);
    sum_high = sum_low = i32_set(0);
    tiles = 0;
  };
  for (int64_t begin = 0; begin < n; begin += kSurveyTile) {
    if (!reaches(maxima, begin, low)) continue;
    const int64_t end = begin + kSurveyTile < n ? begin + kSurveyTile : n;
    for (int64_t i = begin; i < end; i += 16) {
      const F32 value = load_logits(x, i, n);
      const Mask below = less(value, low);
      const Weights w = weights(value, top, factor);
      sum_high = sum_high + select(below, i32_set(0), w.high);
      sum_low = sum_low + select(below, i32_set(0), w.low);
    }
    if (++tiles == kFlushTiles) flush();
  }
  flush();
  return total;
}

void exp_weights(const float* x, int64_t n, float max_value, float inverse_t, int64_t* out) {
  for (int64_t i = 0; i < n; i += 16) {
    const Weights w = weights(load_logits(x, i, n), f32_set(max_value), f32_set(inverse_t));
    int32_t high[16], low[16];
    i32_store(high, w.high);
    i32_store(low, w.low);
    for (int j = 0; j < 16 && i + j < n; ++j) out[i + j] = joined(high, low, j);
  }
}

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") on counters (index, 0, position). Only
// the low half of each 64-bit lane counts: the products bring both halves at once.
struct PhiloxKeys {
  uint64_t k0[10];
  uint64_t k1[10];
  uint64_t position_low;
  uint64_t position_high;
};
inline PhiloxKeys philox_keys(NoiseKey key) {
  PhiloxKeys out;
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    out.k0[round] = k0;
    out.k1[round] = k1;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out.position_low = key.position & 0xFFFFFFFFu;
  out.position_high = key.position >> 32;
  return out;
}
struct PhiloxWords {
  Wide word[4];
};
inline PhiloxWords philox(Wide index, const PhiloxKeys& keys) {
  const Wide m0 = wide_set(0xD2511F53u), m1 = wide_set(0xCD9E8D57u);
  Wide c0 = index, c1 = wide_set(0), c2 = wide_set(keys.position_low), c3 = wide_set(keys.position_high);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Wide p0 = multiply_low(c0, m0), p1 = multiply_low(c2, m1);
    c0 = high_half(p1) ^ c1 ^ wide_set(keys.k0[round]);
    c2 = high_half(p0) ^ c3 ^ wide_set(keys.k1[round]);
    c1 = p1;
    c3 = p0;
  }
  return {{c0, c1, c2, c3}};
}

int64_t draw_scan(const DrawScan& scan, int64_t begin, int64_t end, DrawCandidate* out) {
  constexpr uint64_t kEven[8] = {0, 2, 4, 6, 8, 10, 12, 14}, kOdd[8] = {1, 3, 5, 7, 9, 11, 13, 15};
  const PhiloxKeys keys = philox_keys(scan.key);
  const Wide even = wide_load(kEven), odd = wide_load(kOdd);
  const F32 floor = f32_set(scan.floor > kLowest ? scan.floor : kLowest), top = f32_set(scan.max);
  const F32 factor = f32_set(scan.inverse_t), limit = f32_set(scan.limit), unit = f32_set(kLogUnit);
  int64_t count = 0;
  for (int64_t base = begin; base < end; base += kNoiseBlock) {
    if (base % kSurveyTile == 0 && !reaches(scan.maxima, base, floor)) {
      base += kSurveyTile - kNoiseBlock;
      continue;
    }
    F32 value[4];
    for (int w = 0; w < 4; ++w) value[w] = load_logits(scan.logits, base + 16 * w, end);
    if (bits_at_least(max(max(value[0], value[1]), max(value[2], value[3])), floor) == 0) continue;
    const Wide index = wide_set(static_cast<uint64_t>(base / 4));
    const PhiloxWords a = philox(index ^ even, keys), b = philox(index ^ odd, keys);
    for (int w = 0; w < 4; ++w) {
      const I32 word = interleave_low(a.word[w], b.word[w]);
      // The bits of a float as an integer: its logarithm to base 2, from below, up to 0.0861 (Mitchell).
      const F32 log2_bits = to_f32(as_i32(to_f32(shift_right<1>(word))));
      const F32 needed = fma(log2_bits, unit, (top - value[w]) * factor);
      uint32_t hits = bits(less(needed, limit)) & bits_at_least(value[w], floor);
      if (hits == 0) continue;
      int32_t words[16];
      i32_store(words, word);
      for (; hits != 0; hits &= hits - 1) {
        const int lane = __builtin_ctz(hits);
        out[count++] = {static_cast<int32_t>(base + 16 * w + lane), static_cast<uint32_t>(words[lane])};
      }
    }
  }
  return count;
}

}  // namespace
}  // namespace dspark
