// Norms, activations and RoPE, written once over 16 virtual lanes: included by the ops_*.cc
// files after their lanes_*.h.
#include <cstdint>

#include "kernels/vector_math.inl"

namespace dspark {
namespace {

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
    // As integers, magnitudes have the order that they have as floats, with infinity and NaN above all.
    constexpr int32_t kInfinity = 0x7F800000;
    const int32_t largest = lanes_max(max(as_i32(abs(low)), as_i32(abs(high))));
    const bool broken = largest >= kInfinity;
    const float amax = broken ? 0.0f : __builtin_bit_cast(float, largest);
    const float scale = amax / 127.0f;
    // 127 / amax overflows below 3.8e-37: such a block is zero, and so is one with infinity or NaN.
    const bool tiny = amax < 0x1p-120f;
    const F32 inverse = f32_set(tiny ? 0.0f : 127.0f / amax), zero = f32_zero();
    const I32 q_low = to_i32(broken ? zero : low * inverse), q_high = to_i32(broken ? zero : high * inverse);
    ActivationBlock& block = out[b];
    int32_t sums[2];
    i8_store(block.q, q_low, q_high, sums);
    if (wide != nullptr) {
      // In the order in which matmul_avx2.cc widens weights.
      i16_store_0213(wide + b * kPiece, q_low);
      i16_store_0213(wide + b * kPiece + 16, q_high);
    }
    block.sum_low = sums[0];
    block.sum = sums[1];
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
  int i = 0;
  for (; i + 16 <= half; i += 16) {
    const F32 c = f32_load(cos + i), s = f32_load(sin + i);
    const F32 a = f32_load(x + i), b = f32_load(x + half + i);
    f32_store(x + i, fma(a, c, f32_zero() - b * s));
    f32_store(x + half + i, fma(b, c, a * s));
  }
  if (i == half) return;
  const int rest = half - i;
  const F32 c = load_part(cos + i, rest), s = load_part(sin + i, rest);
  const F32 a = load_part(x + i, rest), b = load_part(x + half + i, rest);
  store_part(x + i, fma(a, c, f32_zero() - b * s), rest);
  store_part(x + half + i, fma(b, c, a * s), rest);
}

}  // namespace
}  // namespace dspark
