// Scalar conversions between float and the two 16-bit float types, on raw bits. Pure functions, any thread.
// Round to nearest even; subnormals are kept and NaN is quieted with its sign and upper payload, as F16C does, whatever
// MXCSR says (only integers are used). Everything has internal linkage and calls nothing but compiler built-ins, so
// that files compiled for one instruction set may include it without leaking a copy into another.
#pragma once

#include <cstdint>

namespace dspark {

static constexpr uint16_t kHalfNan = 0x7e00;
static constexpr uint16_t kHalfOne = 0x3c00;
static constexpr float kHalfMax = 65504.0f;

static inline constexpr bool half_is_finite(uint16_t half) { return (half & 0x7c00) != 0x7c00; }

// IEEE binary16 to float: exact for every input but signalling NaN, which become quiet.
static inline constexpr float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = half & 0x7fff;
  uint32_t bits = 0;
  if (magnitude >= 0x7c00) {
    const uint32_t quiet = magnitude > 0x7c00 ? 0x400000 : 0;
    bits = 0x7f800000 | ((magnitude & 0x3ff) << 13) | quiet;
  } else if (magnitude >= 0x400) {
    bits = (magnitude << 13) + ((127 - 15) << 23);
  } else if (magnitude != 0) {  // subnormal: move the leading one to the hidden bit
    const int shift = __builtin_clz(magnitude) - 21;
    bits = ((magnitude << shift & 0x3ff) << 13) | (static_cast<uint32_t>(127 - 14 - shift) << 23);
  }
  return __builtin_bit_cast(float, sign | bits);
}

// Float to IEEE binary16; magnitudes from 65520 up become infinity.
static inline constexpr uint16_t half_from_float(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half = 0;
  if (magnitude > 0x7f800000) {
    half = kHalfNan | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 0x47800000) {  // 65536
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal; a carry may reach infinity, rightly
    half = (magnitude - ((127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  } else if (magnitude > 0x33000000) {  // above 2^-25, half the smallest subnormal
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    const int shift = 126 - static_cast<int>(magnitude >> 23);
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t middle = 1u << (shift - 1);
    half = mantissa >> shift;
    half += rest > middle || (rest == middle && (half & 1)) ? 1 : 0;
  }
  return static_cast<uint16_t>(sign | half);
}

// bfloat16 to float: the upper half of its bits; signalling NaN stay as they are, as no arithmetic is done.
static inline constexpr float bf16_to_float(uint16_t bf16) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(bf16) << 16);
}

// Float to bfloat16, round to nearest even, NaN quieted.
static inline constexpr uint16_t bf16_from_float(float value) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace dspark
