// Norms, activations, RoPE and vocabulary reductions, written once over 16 virtual lanes: included by the ops_*.cc
// files after their lanes_*.h.
#include <cstdint>

namespace dspark {
namespace {

// The first `count` < 16 values of p; the other lanes are zero.
inline F32 load_part(const float* p, int count) {
  float part[16] = {};
  for (int i = 0; i < count; ++i) part[i] = p[i];
  return f32_load(part);
}
inline void store_part(float* p, F32 x, int count) {
  float part[16];
  f32_store(part, x);
  for (int i = 0; i < count; ++i) p[i] = part[i];
}

// out[i] = fn(i-th 16 lanes of the inputs): the last, shorter one included.
template <class Fn, class... In>
inline void map_lanes(int64_t n, float* out, Fn fn, In... in) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) f32_store(out + i, fn(f32_load(in + i)...));
  if (i < n) store_part(out + i, fn(load_part(in + i, static_cast<int>(n - i))...), static_cast<int>(n - i));
}

// e^x within 2 ulp: x = n ln 2 + r, a polynomial in r, scaled by 2^n. exp(0) is 1; below -87.3 it is 0, above 88.7
// infinity. Coefficients: minimax on [-ln 2 / 2, ln 2 / 2].
inline F32 exp(F32 x) {
  const F32 n = round_even(x * f32_set(1.44269504088896341f));
  const F32 r = fma(n, f32_set(2.12194440e-4f), fma(n, f32_set(-0.693359375f), x));
  F32 p = f32_set(1.9875691500e-4f);
  p = fma(p, r, f32_set(1.3981999507e-3f));
  p = fma(p, r, f32_set(8.3334519073e-3f));
  p = fma(p, r, f32_set(4.1665795894e-2f));
  p = fma(p, r, f32_set(1.6666665459e-1f));
  p = fma(p, r, f32_set(5.0000001201e-1f));
  p = fma(p, r * r, r) + f32_set(1.0f);
  // n is at most 128: two factors keep the exponent in range.
  const I32 half = to_i32(n * f32_set(0.5f));
  const I32 rest = to_i32(n) - half;
  const F32 a = as_f32(shift_left<23>(half + i32_set(127)));
  const F32 b = as_f32(shift_left<23>(rest + i32_set(127)));
  F32 y = p * a * b;
  y = select(less(x, f32_set(-87.3f)), f32_zero(), y);
  return select(less(f32_set(88.7f), x), f32_set(__builtin_inff()), y);
}

void rms_norm(const float* x, const float* weight, int n, float eps, float* out) {
  F32 squares = f32_zero();
  int i = 0;
  for (; i + 16 <= n; i += 16) squares = fma(f32_load(x + i), f32_load(x + i), squares);
  if (i < n) {
    const F32 last = load_part(x + i, n - i);
    squares = fma(last, last, squares);
  }
  const float mean = lanes_sum(squares) / static_cast<float>(n);
  const F32 factor = f32_set(1.0f / __builtin_sqrtf(mean + eps));
  map_lanes(
      n, out, [&](F32 value, F32 w) { return value * factor * w; }, x, weight);
}

void add(float* x, const float* y, int n) {
  map_lanes(
      n, x, [](F32 a, F32 b) { return a + b; }, static_cast<const float*>(x), y);
}

void scale(float* x, float factor, int n) {
  map_lanes(
      n, x, [&](F32 a) { return a * f32_set(factor); }, static_cast<const float*>(x));
}

void add_scaled(float* acc, const float* x, float weight, int n) {
  map_lanes(
      n, acc, [&](F32 a, F32 b) { return fma(f32_set(weight), b, a); }, static_cast<const float*>(acc), x);
}

void quantise(const float* x, int64_t k, ActivationBlock* out, int16_t* wide) {
  for (int64_t b = 0; b < k / kPiece; ++b) {
    const F32 low = f32_load(x + b * kPiece), high = f32_load(x + b * kPiece + 16);
    // Largest magnitude; infinity and NaN show in the sum of x * 0.
    float lanes[16];
    f32_store(lanes, max(abs(low), abs(high)));
    float amax = 0.0f;
    for (float lane : lanes) amax = lane > amax ? lane : amax;
    const float poison = lanes_sum(low * f32_zero() + high * f32_zero());
    ActivationBlock& block = out[b];
    const float scale = amax / 127.0f;
    // 127 / amax overflows below 3.8e-37: such a block is zero.
    const bool tiny = !(amax >= 0x1p-120f);
    const F32 inverse = f32_set(tiny || poison != 0.0f ? 0.0f : 127.0f / amax);
    const bool broken = poison != poison;
    const F32 zero = f32_zero();
    const I32 q_low = to_i32(round_even(broken ? zero : low * inverse));
    const I32 q_high = to_i32(round_even(broken ? zero : high * inverse));
    i8_store(block.q, q_low);
    i8_store(block.q + 16, q_high);
    if (wide != nullptr) {
      // In the order (0, 2, 1, 3) of each four, as matmul_avx2.cc widens weights.
      int16_t in_order[kPiece];
      i16_store(in_order, q_low);
      i16_store(in_order + 16, q_high);
      for (int i = 0; i < kPiece; i += 4) {
        int16_t* four = wide + b * kPiece + i;
        four[0] = in_order[i], four[1] = in_order[i + 2], four[2] = in_order[i + 1], four[3] = in_order[i + 3];
      }
    }
    // Sums of at most 32 * 127 are exact in float.
    block.sum_low = static_cast<int32_t>(lanes_sum(to_f32(q_low)));
    block.sum = block.sum_low + static_cast<int32_t>(lanes_sum(to_f32(q_high)));
    block.scale = broken ? __builtin_nanf("") : tiny ? 0.0f : scale;
    block.scaled_sum = block.scale * static_cast<float>(block.sum);
  }
}

void gated(Gate gate, const float* g, const float* up, int n, float* out) {
  const F32 one = f32_set(1.0f);
  if (gate == Gate::kSilu) {
    map_lanes(
        n, out, [&](F32 x, F32 u) { return x / (one + exp(f32_zero() - x)) * u; }, g, up);
    return;
  }
  // 0.5 x (1 + tanh(y)) = x / (1 + e^-2y), y = sqrt(2 / pi) (x + 0.044715 x^3)
  const F32 minus_two_root = f32_set(-1.5957691216057308f);
  const F32 cube = f32_set(0.044715f);
  map_lanes(
      n, out, [&](F32 x, F32 u) { return x / (one + exp(minus_two_root * fma(cube * x * x, x, x))) * u; }, g, up);
}

void rope(float* x, const float* cos, const float* sin, int rotary) {
  const int half = rotary / 2;
  for (int i = 0; i < half; i += 16) {
    const int count = half - i < 16 ? half - i : 16;
    const bool whole = count == 16;
    const F32 c = whole ? f32_load(cos + i) : load_part(cos + i, count);
    const F32 s = whole ? f32_load(sin + i) : load_part(sin + i, count);
    const F32 a = whole ? f32_load(x + i) : load_part(x + i, count);
    const F32 b = whole ? f32_load(x + half + i) : load_part(x + half + i, count);
    store_part(x + i, fma(a, c, f32_zero() - b * s), count);
    store_part(x + half + i, fma(b, c, a * s), count);
  }
}

float max(const float* x, int64_t n) {
  const float lowest = -__builtin_inff();
  F32 best = f32_set(lowest);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) best = max(f32_load(x + i), best);
  float lanes[16];
  f32_store(lanes, best);
  float out = lowest;
  for (float lane : lanes) out = lane > out ? lane : out;
  for (; i < n; ++i) out = x[i] > out ? x[i] : out;
  return out;
}

int64_t argmax(const float* x, int64_t n) {
  F32 best = f32_set(-__builtin_inff()), poison = f32_zero();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F32 value = f32_load(x + i);
    best = max(value, best);
    poison = poison + select(is_nan(value), f32_set(1.0f), f32_zero());
  }
  bool broken = lanes_sum(poison) != 0.0f;
  float lanes[16];
  f32_store(lanes, best);
  float top = -__builtin_inff();
  for (float lane : lanes) top = lane > top ? lane : top;
  for (int64_t j = i; j < n; ++j) {
    broken = broken || x[j] != x[j];
    top = x[j] > top ? x[j] : top;
  }
  if (broken) return -1;
  for (int64_t j = 0; j < n; ++j) {
    if (x[j] == top) return j;
  }
  return -1;
}

// Adds exp(x - max) tile by tile of 1,024: 16 lanes within a tile, tiles in order in double.
void exp_sum(const float* x, int64_t n, float max_value, double* sum) {
  constexpr int64_t kTile = 1024;
  const F32 shift = f32_set(max_value);
  for (int64_t begin = 0; begin < n; begin += kTile) {
    const int64_t end = begin + kTile < n ? begin + kTile : n;
    F32 lanes = f32_zero();
    int64_t i = begin;
    for (; i + 16 <= end; i += 16) lanes = lanes + exp(f32_load(x + i) - shift);
    if (i < end) {
      float part[16];
      for (int64_t j = 0; j < 16; ++j) part[j] = i + j < end ? x[i + j] : -__builtin_inff();
      lanes = lanes + exp(f32_load(part) - shift);
    }
    *sum += static_cast<double>(lanes_sum(lanes));
  }
}

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"), 16 counters at a time: counter =
// (token / 4, 0, position low, position high), key = seed; word token % 4 belongs to the token.
void noise(NoiseKey key, int64_t first, int64_t n, uint32_t* out) {
  int32_t steps[16];
  for (int i = 0; i < 16; ++i) steps[i] = i;
  for (int64_t base = 0; base < n; base += 64) {
    I32 c0 = i32_set(static_cast<int32_t>((first + base) / 4)) + i32_load(steps);
    I32 c1 = i32_set(0);
    I32 c2 = i32_set(static_cast<int32_t>(key.position)), c3 = i32_set(static_cast<int32_t>(key.position >> 32));
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      I32 high0, low0, high1, low1;
      multiply_wide(c0, i32_set(static_cast<int32_t>(0xD2511F53u)), &high0, &low0);
      multiply_wide(c2, i32_set(static_cast<int32_t>(0xCD9E8D57u)), &high1, &low1);
      c0 = high1 ^ c1 ^ i32_set(static_cast<int32_t>(k0));
      c2 = high0 ^ c3 ^ i32_set(static_cast<int32_t>(k1));
      c1 = low1;
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    int32_t words[4][16];
    i32_store(words[0], c0);
    i32_store(words[1], c1);
    i32_store(words[2], c2);
    i32_store(words[3], c3);
    for (int i = 0; i < 64; ++i) out[base + i] = static_cast<uint32_t>(words[i % 4][i / 4]);
  }
}

}  // namespace
}  // namespace dspark
