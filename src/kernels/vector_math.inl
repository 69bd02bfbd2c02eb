// Element-wise helpers and the exponential over 16 virtual lanes: included after a lanes_*.h.
#pragma once

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

constexpr float kExpLow = -87.3f, kExpHigh = 88.7f;

// e^x for x in [kExpLow, kExpHigh], where it is normal, within 1 ulp: x = n ln 2 + r, a polynomial in r, scaled by 2^n.
// NaN for NaN; elsewhere anything. Coefficients: minimax on [-ln 2 / 2, ln 2 / 2].
inline F32 exp_inside(F32 x) {
  const I32 exponent = to_i32(x * f32_set(1.44269504088896341f));
  const F32 n = to_f32(exponent);
  const F32 r = fma(n, f32_set(2.12194440e-4f), fma(n, f32_set(-0.693359375f), x));
  F32 p = f32_set(1.9875691500e-4f);
  p = fma(p, r, f32_set(1.3981999507e-3f));
  p = fma(p, r, f32_set(8.3334519073e-3f));
  p = fma(p, r, f32_set(4.1665795894e-2f));
  p = fma(p, r, f32_set(1.6666665459e-1f));
  p = fma(p, r, f32_set(5.0000001201e-1f));
  p = fma(p, r * r, r) + f32_set(1.0f);
  // The exponent of NaN is INT_MIN, which is shifted out.
  return as_f32(as_i32(p) + shift_left<23>(exponent));
}

// e^x within 1 ulp, 1 at 0; 0 below kExpLow, infinity above kExpHigh.
inline F32 exp(F32 x) {
  const F32 y = zero_if(less(x, f32_set(kExpLow)), exp_inside(x));
  return select(less(f32_set(kExpHigh), x), f32_set(__builtin_inff()), y);
}

// The same, for x that is at most 0.
inline F32 exp_to_1(F32 x) { return zero_if(less(x, f32_set(kExpLow)), exp_inside(x)); }

}  // namespace
}  // namespace dspark
