// Reductions over a vocabulary and the scan of a draw, written once over 16 virtual lanes: included by the ops_*.cc
// files after their ops.inl. What each function returns does not depend on lanes or tiles: maxima, counts and sums of
// integers have no order.
#include <cstdint>

namespace dspark {
namespace {

constexpr float kLowest = -__FLT_MAX__;
constexpr int64_t kNoiseBlock = 128;  // tokens whose noise comes from 16 counters

// x[i .. i + 15]; -infinity from n on.
[[gnu::noinline]] void copy_tail(const float* x, int64_t i, int64_t n, float* part) {
  for (int64_t j = 0; j < 16; ++j) part[j] = i + j < n ? x[i + j] : -__builtin_inff();
}
inline F32 load_logits(const float* x, int64_t i, int64_t n) {
  if (i + 16 <= n) return f32_load(x + i);
  float part[16];
  copy_tail(x, i, n, part);
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

// e^((x - max) / T) in units of 2^-kWeightBits, as high * 2^22 + low, within 2^-21 (1 + |x - max| / T) of itself, and 0
// below a floor. 2^t is 2^round(t) times a minimax polynomial in the rest, which is 1 at 0.
struct Weights {
  I32 high;
  I32 low;
};
struct Weighing {
  F32 max;
  F32 factor;
  F32 floor;

  Weighing(float max_value, float inverse_t, float floor_value)
      : max(f32_set(max_value)),
        factor(f32_set(inverse_t * 0x1.715476p+0f)),  // 1 / ln 2
        floor(f32_set(floor_value)) {}

  Weights operator()(F32 x) const {
    const F32 nothing = f32_set(-64.0f);  // 2^-44 rounds to 0
    const F32 t = dspark::max((x - max) * factor, nothing);
    const I32 n = to_i32(t);
    const F32 r = t - to_f32(n);
    // Coefficients times 2^20.
    F32 p = f32_set(0x1.5bba14p10f);
    p = fma(p, r, f32_set(0x1.3cea88p13f));
    p = fma(p, r, f32_set(0x1.c6b752p15f));
    p = fma(p, r, f32_set(0x1.ebf9bcp17f));
    p = fma(p, r, f32_set(0x1.62e42ap19f));
    p = fma(p, r, f32_set(0x1p20f));
    const F32 scaled = zero_if(less(x, floor), as_f32(as_i32(p) + shift_left<23>(n)));
    const I32 high = to_i32(scaled);
    return {high, to_i32((scaled - to_f32(high)) * f32_set(0x1p22f))};
  }
};

inline int64_t joined(const int32_t* high, const int32_t* low, int i) {
  return static_cast<int64_t>(high[i]) * (1 << 22) + low[i];
}

int64_t exp_sum(const float* x, const float* maxima, int64_t n, float max_value, float inverse_t, float floor) {
  constexpr int kFlushTiles = 32;  // 512 vectors of |high| <= 2^20 and |low| <= 2^21 fit 32 bits
  const Weighing weigh(max_value, inverse_t, floor > kLowest ? floor : kLowest);
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
    if (!reaches(maxima, begin, weigh.floor)) continue;
    const int64_t end = begin + kSurveyTile < n ? begin + kSurveyTile : n;
    for (int64_t i = begin; i < end; i += 16) {
      const Weights w = weigh(load_logits(x, i, n));
      sum_high = sum_high + w.high;
      sum_low = sum_low + w.low;
    }
    if (++tiles == kFlushTiles) flush();
  }
  flush();
  return total;
}

void exp_weights(const float* x, int64_t n, float max_value, float inverse_t, int64_t* out) {
  const Weighing weigh(max_value, inverse_t, kLowest);
  for (int64_t i = 0; i < n; i += 16) {
    const Weights w = weigh(load_logits(x, i, n));
    int32_t high[16], low[16];
    i32_store(high, w.high);
    i32_store(low, w.low);
    for (int j = 0; j < 16 && i + j < n; ++j) out[i + j] = joined(high, low, j);
  }
}

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") on counters (index, 0, position): c0 to
// c3 are the counter's words, and a round is
//   p0 = c0 * M0, p1 = c2 * M1; c0 = high(p1) ^ c1 ^ k0, c1 = low(p1), c2 = high(p0) ^ c3 ^ k1, c3 = low(p0).
// Only the low half of a 64-bit lane counts, so that a product serves as its own low half. Half of the first two
// rounds is the same for every index.
constexpr uint64_t kPhiloxM0 = 0xD2511F53, kPhiloxM1 = 0xCD9E8D57;
constexpr int kPhiloxRounds = 10;
struct PhiloxKeys {
  uint64_t k0[kPhiloxRounds][8];
  uint64_t k1[kPhiloxRounds][8];
  uint64_t c2_first[8];   // what high(p0) is combined with to give c2, in the first three rounds
  uint64_t c0_second[8];  // what high(p1) is combined with to give c0, in the second
  uint64_t c2_second[8];  // what c3 is combined with
  uint64_t c2_third[8];
};
inline void fill(uint64_t* lanes, uint64_t x) {
  for (int i = 0; i < 8; ++i) lanes[i] = x;
}
inline PhiloxKeys philox_keys(NoiseKey key) {
  PhiloxKeys out;
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    fill(out.k0[round], k0);
    fill(out.k1[round], k1);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const uint64_t p1 = (key.position & 0xFFFFFFFFu) * kPhiloxM1;
  const uint64_t p0 = (p1 >> 32 ^ out.k0[0][0]) * kPhiloxM0;
  fill(out.c2_first, key.position >> 32 ^ out.k1[0][0]);
  fill(out.c0_second, p1 ^ out.k0[1][0]);
  fill(out.c2_second, p0 >> 32 ^ out.k1[1][0]);
  fill(out.c2_third, p0 ^ out.k1[2][0]);
  return out;
}
struct PhiloxWords {
  Wide word[4];
};
// `product`: the index times kPhiloxM0.
inline PhiloxWords philox(Wide product, const PhiloxKeys& keys) {
  const Wide m0 = wide_set(kPhiloxM0), m1 = wide_set(kPhiloxM1);
  Wide p0 = product, p1 = multiply_low(high_half(p0) ^ wide_load(keys.c2_first), m1);
  Wide c0 = high_half(p1) ^ wide_load(keys.c0_second), c1 = p1;
  Wide c2 = p0 ^ wide_load(keys.c2_second), c3 = p0;
  p0 = multiply_low(c0, m0), p1 = multiply_low(c2, m1);
  c0 = high_half(p1) ^ c1 ^ wide_load(keys.k0[2]), c1 = p1;
  c2 = high_half(p0) ^ wide_load(keys.c2_third), c3 = p0;
#pragma GCC unroll 7
  for (int round = 3; round < kPhiloxRounds; ++round) {
    p0 = multiply_low(c0, m0), p1 = multiply_low(c2, m1);
    c0 = high_half(p1) ^ c1 ^ wide_load(keys.k0[round]), c1 = p1;
    c2 = high_half(p0) ^ c3 ^ wide_load(keys.k1[round]), c3 = p0;
  }
  return {{c0, c1, c2, c3}};
}
inline Wide least(const PhiloxWords& x) {
  return min_u16(min_u16(x.word[0], x.word[1]), min_u16(x.word[2], x.word[3]));
}

// What the noise of a token must not lack for its score to reach the bound, in the terms of DrawScan.
inline F32 lack(const DrawScan& scan, F32 half, F32 value) {
  // The bits of a float as an integer: its logarithm to base 2, from below, up to 0.0861 (Mitchell).
  const F32 log2_bits = to_f32(as_i32(half));
  return fma(log2_bits, f32_set(kLogUnit), (f32_set(scan.max) - value) * f32_set(scan.inverse_t));
}

int64_t draw_scan(const DrawScan& scan, int64_t begin, int64_t end, int32_t* tokens) {
  // Index base / 8 + i times kPhiloxM0, for even and for odd i.
  uint64_t products[2][8];
  for (uint64_t i = 0; i < 16; ++i) products[i % 2][i / 2] = i * kPhiloxM0;
  const Wide even = wide_load(products[0]), odd = wide_load(products[1]);
  const PhiloxKeys keys = philox_keys(scan.key);
  const F32 floor = f32_set(scan.floor > kLowest ? scan.floor : kLowest), limit = f32_set(scan.limit);
  const auto low_half = [](I32 word) { return to_f32(word & i32_set(0xFFFF)); };
  const auto high_half_of = [](I32 word) { return to_f32(shift_right<16>(word)); };
  int64_t count = 0;
  for (int64_t base = begin; base < end; base += kNoiseBlock) {
    if (base % kSurveyTile == 0 && !reaches(scan.maxima, base, floor)) {
      base += kSurveyTile - kNoiseBlock;
      continue;
    }
    F32 best = load_logits(scan.logits, base, end);
    for (int slot = 1; slot < 8; ++slot) best = max(best, load_logits(scan.logits, base + 16 * slot, end));
    if (bits_at_least(best, floor) == 0) continue;
    const Wide product = wide_set(static_cast<uint64_t>(base / 8) * kPhiloxM0);
    const PhiloxWords a = philox(product + even, keys), b = philox(product + odd, keys);
    // Seldom true even for the best of eight logits with the least of their halves.
    const I32 both = interleave_low(least(a), least(b));
    if (!any(less(lack(scan, min(low_half(both), high_half_of(both)), best), limit))) continue;
    for (int slot = 0; slot < 8; ++slot) {
      const I32 word = interleave_low(a.word[slot % 4], b.word[slot % 4]);
      const F32 value = load_logits(scan.logits, base + 16 * slot, end);
      const F32 half = slot < 4 ? low_half(word) : high_half_of(word);
      uint32_t hits = bits(less(lack(scan, half, value), limit)) & bits_at_least(value, floor);
      for (; hits != 0; hits &= hits - 1) {
        tokens[count++] = static_cast<int32_t>(base + 16 * slot + __builtin_ctz(hits));
      }
    }
  }
  return count;
}

}  // namespace
}  // namespace dspark
