// Four floats at a time in the vector extension of GCC and Clang, with the same bits on any machine: the quantisers are
// compiled once, for the oldest CPU. Internal to formats/. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <cstring>

namespace dspark {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = int32_t __attribute__((vector_size(16)));

inline Float4 load4(const float* from) {
  Float4 value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

inline Float4 splat4(float value) { return Float4{value, value, value, value}; }

inline float sum4(Float4 value) { return (value[0] + value[2]) + (value[1] + value[3]); }

inline Float4 abs4(Float4 value) { return (Float4)((Int4)value & 0x7fffffff); }

// NaN gives low.
inline Float4 clamp4(Float4 value, float low, float high) {
  value = value > low ? value : splat4(low);
  return value < high ? value : splat4(high);
}

// To the nearest integer, halves to even, for magnitudes up to 2^22.
inline Float4 round4(Float4 value) {
  constexpr float kMagic = 12582912.0f;  // 1.5 · 2^23: adding it leaves no fraction bits
  return (value + kMagic) - kMagic;
}

// Four floats within the range of Byte, truncated.
template <class Byte>
void store_bytes(Float4 value, Byte* to) {
  const Int4 integers = __builtin_convertvector(value, Int4);
  for (int i = 0; i < 4; ++i) to[i] = static_cast<Byte>(integers[i]);
}

}  // namespace dspark
