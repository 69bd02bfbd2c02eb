// The 16 virtual lanes in plain C++: the reference that defines what every operation of lanes_avx2.h and
// lanes_avx512.h returns, bit for bit. Included only by the *_portable.cc files.
//
// F32, I32: 16 lanes of 32 bits. Wide: 8 lanes of 64 bits. Codes: 64 bytes, the unsigned weight codes of 16 output rows
// x 4 inputs (row r at bytes 4r..4r+3). Rounding is to nearest even; subnormals are kept.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/half.h"

namespace dspark {
namespace {

inline constexpr int kLanes = 16;

struct F32 {
  float v[kLanes];
};
struct I32 {
  int32_t v[kLanes];
};
struct Mask {
  bool v[kLanes];
};
struct Wide {
  uint64_t v[kLanes / 2];
};
struct Codes {
  uint8_t v[64];
};

template <class Out, class Fn>
inline Out each(Fn fn) {
  Out out;
  for (int i = 0; i < kLanes; ++i) out.v[i] = fn(i);
  return out;
}
template <class Fn>
inline Codes each_byte(Fn fn) {
  Codes out;
  for (int i = 0; i < 64; ++i) out.v[i] = fn(i);
  return out;
}

inline F32 f32_load(const float* p) {
  return each<F32>([&](int i) { return p[i]; });
}
inline void f32_store(float* p, F32 a) { std::memcpy(p, a.v, sizeof(a.v)); }
inline F32 f32_set(float x) {
  return each<F32>([&](int) { return x; });
}
inline F32 f32_zero() { return f32_set(0.0f); }
inline F32 operator+(F32 a, F32 b) {
  return each<F32>([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32 operator-(F32 a, F32 b) {
  return each<F32>([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32 operator*(F32 a, F32 b) {
  return each<F32>([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32 operator/(F32 a, F32 b) {
  return each<F32>([&](int i) { return a.v[i] / b.v[i]; });
}
// a * b + c, rounded once.
inline F32 fma(F32 a, F32 b, F32 c) {
  return each<F32>([&](int i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
// The second operand if either is NaN, as x86 has it.
inline F32 min(F32 a, F32 b) {
  return each<F32>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 max(F32 a, F32 b) {
  return each<F32>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32 abs(F32 a) {
  return each<F32>([&](int i) { return std::fabs(a.v[i]); });
}
inline I32 max(I32 a, I32 b) {
  return each<I32>([&](int i) { return std::max(a.v[i], b.v[i]); });
}
inline Mask less(F32 a, F32 b) {
  return each<Mask>([&](int i) { return a.v[i] < b.v[i]; });
}
inline Mask is_nan(F32 a) {
  return each<Mask>([&](int i) { return a.v[i] != a.v[i]; });
}
inline Mask equal(I32 a, I32 b) {
  return each<Mask>([&](int i) { return a.v[i] == b.v[i]; });
}
inline Mask less(I32 a, I32 b) {
  return each<Mask>([&](int i) { return a.v[i] < b.v[i]; });
}
// m ? a : b.
inline F32 select(Mask m, F32 a, F32 b) {
  return each<F32>([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}
inline I32 select(Mask m, I32 a, I32 b) {
  return each<I32>([&](int i) { return m.v[i] ? a.v[i] : b.v[i]; });
}
// m ? 0 : a.
inline F32 zero_if(Mask m, F32 a) {
  return each<F32>([&](int i) { return m.v[i] ? 0.0f : a.v[i]; });
}
inline uint32_t bits(Mask m) {
  uint32_t out = 0;
  for (int i = 0; i < kLanes; ++i) out |= static_cast<uint32_t>(m.v[i]) << i;
  return out;
}
inline bool any(Mask m) { return bits(m) != 0; }

inline I32 i32_load(const int32_t* p) {
  return each<I32>([&](int i) { return p[i]; });
}
inline void i32_store(int32_t* p, I32 a) { std::memcpy(p, a.v, sizeof(a.v)); }
inline I32 i32_set(int32_t x) {
  return each<I32>([&](int) { return x; });
}
// Integers wrap around.
inline I32 operator+(I32 a, I32 b) {
  return each<I32>(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) + static_cast<uint32_t>(b.v[i])); });
}
inline I32 operator-(I32 a, I32 b) {
  return each<I32>(
      [&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) - static_cast<uint32_t>(b.v[i])); });
}
inline I32 operator&(I32 a, I32 b) {
  return each<I32>([&](int i) { return a.v[i] & b.v[i]; });
}
inline I32 operator^(I32 a, I32 b) {
  return each<I32>([&](int i) { return a.v[i] ^ b.v[i]; });
}
template <int kShift>
inline I32 shift_left(I32 a) {
  return each<I32>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << kShift); });
}
// Logical: zeros enter from above.
template <int kShift>
inline I32 shift_right(I32 a) {
  return each<I32>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) >> kShift); });
}
inline F32 to_f32(I32 a) {
  return each<F32>([&](int i) { return static_cast<float>(a.v[i]); });
}
// To nearest even; what does not fit, and NaN, gives the smallest integer, as x86 has it.
inline I32 to_i32(F32 a) {
  return each<I32>([&](int i) {
    const float rounded = std::nearbyint(a.v[i]);
    return rounded >= -0x1p31f && rounded < 0x1p31f ? static_cast<int32_t>(rounded) : INT32_MIN;
  });
}
inline F32 as_f32(I32 a) {
  F32 out;
  std::memcpy(out.v, a.v, sizeof(out.v));
  return out;
}
inline I32 as_i32(F32 a) {
  I32 out;
  std::memcpy(out.v, a.v, sizeof(out.v));
  return out;
}

inline Wide wide_load(const uint64_t* p) {
  Wide out;
  std::memcpy(out.v, p, sizeof(out.v));
  return out;
}
inline Wide wide_set(uint64_t x) {
  Wide out;
  for (uint64_t& lane : out.v) lane = x;
  return out;
}
inline Wide operator^(Wide a, Wide b) {
  for (int i = 0; i < kLanes / 2; ++i) a.v[i] ^= b.v[i];
  return a;
}
inline Wide operator+(Wide a, Wide b) {
  for (int i = 0; i < kLanes / 2; ++i) a.v[i] += b.v[i];
  return a;
}
// The least of each unsigned 16 bits.
inline Wide min_u16(Wide a, Wide b) {
  uint16_t x[kLanes * 2], y[kLanes * 2];
  std::memcpy(x, a.v, sizeof(x));
  std::memcpy(y, b.v, sizeof(y));
  for (int i = 0; i < kLanes * 2; ++i) x[i] = y[i] < x[i] ? y[i] : x[i];
  std::memcpy(a.v, x, sizeof(x));
  return a;
}
// Products of the low halves.
inline Wide multiply_low(Wide a, Wide b) {
  for (int i = 0; i < kLanes / 2; ++i) a.v[i] = (a.v[i] & 0xFFFFFFFFu) * (b.v[i] & 0xFFFFFFFFu);
  return a;
}
inline Wide high_half(Wide a) {
  for (uint64_t& lane : a.v) lane >>= 32;
  return a;
}
// Low halves: even[0], odd[0], even[1], odd[1], ...
inline I32 interleave_low(Wide even, Wide odd) {
  return each<I32>([&](int i) { return static_cast<int32_t>((i % 2 == 0 ? even : odd).v[i / 2]); });
}

inline F32 f16_load(const uint16_t* p) {
  return each<F32>([&](int i) { return half_to_float(p[i]); });
}
inline void f16_store(uint16_t* p, F32 a) {
  for (int i = 0; i < kLanes; ++i) p[i] = half_from_float(a.v[i]);
}
inline F32 bf16_load(const uint16_t* p) {
  return each<F32>([&](int i) { return bf16_to_float(p[i]); });
}
inline F32 i8_load(const int8_t* p) {
  return each<F32>([&](int i) { return static_cast<float>(p[i]); });
}
inline I32 u8_load(const uint8_t* p) {
  return each<I32>([&](int i) { return static_cast<int32_t>(p[i]); });
}
// 32 values of -128 to 127 as bytes; sums[0] of the first 16, sums[1] of all.
inline void i8_store(int8_t* p, I32 low, I32 high, int32_t* sums) {
  sums[0] = sums[1] = 0;
  for (int i = 0; i < kLanes; ++i) {
    p[i] = static_cast<int8_t>(low.v[i]);
    p[kLanes + i] = static_cast<int8_t>(high.v[i]);
    sums[0] += low.v[i];
    sums[1] += low.v[i] + high.v[i];
  }
}
// In the order (0, 2, 1, 3) of each four lanes.
inline void i16_store_0213(int16_t* p, I32 a) {
  constexpr int kFrom[] = {0, 2, 1, 3};
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<int16_t>(a.v[i / 4 * 4 + kFrom[i % 4]]);
}

// The fixed tree: i + (i + 8), then + 4, + 2, + 1.
inline float lanes_sum(F32 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  }
  return a.v[0];
}
// The largest, NaN left out as far as `max` does: in the same tree, max(upper half, lower half).
inline int32_t lanes_max(I32 a) { return *std::max_element(a.v, a.v + kLanes); }
inline float lanes_max(F32 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i + half] > a.v[i] ? a.v[i + half] : a.v[i];
  }
  return a.v[0];
}

inline Codes codes_load(const uint8_t* p) {
  return each_byte([&](int i) { return p[i]; });
}
inline void codes_store(uint8_t* p, Codes a) { std::memcpy(p, a.v, sizeof(a.v)); }
inline Codes operator&(Codes a, Codes b) {
  return each_byte([&](int i) { return static_cast<uint8_t>(a.v[i] & b.v[i]); });
}
inline Codes operator|(Codes a, Codes b) {
  return each_byte([&](int i) { return static_cast<uint8_t>(a.v[i] | b.v[i]); });
}
inline Codes codes_set(uint8_t x) {
  return each_byte([&](int) { return x; });
}
// Shifts 16-bit pieces: the caller masks what crosses a byte.
template <int kShift>
inline Codes shift_right(Codes a) {
  uint16_t w[32];
  std::memcpy(w, a.v, 64);
  for (uint16_t& x : w) x = static_cast<uint16_t>(x >> kShift);
  std::memcpy(a.v, w, 64);
  return a;
}
template <int kShift>
inline Codes shift_left(Codes a) {
  uint16_t w[32];
  std::memcpy(w, a.v, 64);
  for (uint16_t& x : w) x = static_cast<uint16_t>(x << kShift);
  std::memcpy(a.v, w, 64);
  return a;
}
// table[code] for codes below 16.
inline Codes codes_lookup(const uint8_t* table16, Codes a) {
  return each_byte([&](int i) { return table16[a.v[i] & 15]; });
}

}  // namespace
}  // namespace dspark
