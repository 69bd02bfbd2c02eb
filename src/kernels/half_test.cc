// Tests of half.h: every half, and floats around every rounding boundary, against a definition in doubles and, where
// the CPU has it, against F16C.
#include "kernels/half.h"

#include <gtest/gtest.h>
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

namespace dspark {
namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

// IEEE 754's definition of a finite or infinite 16-bit float.
double value_of(uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double magnitude = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                   : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  if (exponent == (1 << exponent_bits) - 1)
    magnitude = mantissa ? std::nan("") : std::numeric_limits<double>::infinity();
  return bits & 0x8000 ? -magnitude : magnitude;
}

// Floats around every non-negative 16-bit value and every middle between two, of both signs, then random bits.
std::vector<float> samples(float (*widen)(uint16_t)) {
  std::vector<float> result;
  for (int i = 0; i < 0x8000; ++i) {
    const uint32_t here = bits_of(widen(static_cast<uint16_t>(i)));
    const uint32_t next = bits_of(widen(static_cast<uint16_t>(i + 1)));
    const uint32_t middle = here + (next - here) / 2;
    for (uint32_t center : {here, middle}) {
      for (uint32_t bits : {center - 1, center, center + 1}) {
        result.push_back(std::bit_cast<float>(bits & 0x7fffffff));
        result.push_back(std::bit_cast<float>(bits | 0x80000000));
      }
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2'000'000; ++i) result.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return result;
}

// Nearest 16-bit value by comparing with both neighbours, in doubles; infinity counts as the next power of two.
void expect_nearest_even(float value, uint16_t found, int mantissa_bits) {
  ASSERT_EQ(found >> 15, bits_of(value) >> 31) << value;
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(value_of(found, mantissa_bits)));
    return;
  }
  const uint16_t infinity = static_cast<uint16_t>(((1 << (15 - mantissa_bits)) - 1) << mantissa_bits);
  const auto magnitude = [&](int bits) {
    if (bits == infinity) return 2 * value_of(static_cast<uint16_t>(infinity - (1 << mantissa_bits)), mantissa_bits);
    return value_of(static_cast<uint16_t>(bits), mantissa_bits);
  };
  const int here = found & 0x7fff;
  const double x = std::fabs(static_cast<double>(value));
  ASSERT_LE(here, infinity) << value;
  if (std::isinf(value)) {
    ASSERT_EQ(here, infinity);
    return;
  }
  const double distance = std::fabs(x - magnitude(here));
  const bool even = (here & 1) == 0;
  if (here > 0) {
    const double below = std::fabs(x - magnitude(here - 1));
    ASSERT_TRUE(distance < below || (distance == below && even)) << value;
  }
  if (here < infinity) {
    const double above = std::fabs(x - magnitude(here + 1));
    ASSERT_TRUE(distance < above || (distance == above && even)) << value;
  }
}

TEST(Half, EveryHalfToFloat) {
  for (int i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const double expected = value_of(half, 10);
    const float found = half_to_float(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << i;
    } else {
      ASSERT_EQ(bits_of(found), bits_of(static_cast<float>(expected))) << i;
      ASSERT_EQ(half_from_float(found), half) << i;
    }
  }
}

TEST(Half, FloatToNearestHalf) {
  for (float value : samples(half_to_float))
    ASSERT_NO_FATAL_FAILURE(expect_nearest_even(value, half_from_float(value), 10));
}

TEST(Half, EveryBf16ToFloatAndBack) {
  for (int i = 0; i < 0x10000; ++i) {
    const auto bf16 = static_cast<uint16_t>(i);
    const float found = bf16_to_float(bf16);
    ASSERT_EQ(bits_of(found), static_cast<uint32_t>(i) << 16);
    const bool is_nan = std::isnan(found);
    ASSERT_EQ(is_nan, std::isnan(value_of(bf16, 7)));
    if (!is_nan) {
      ASSERT_EQ(static_cast<double>(found), value_of(bf16, 7));
    }
    ASSERT_EQ(bf16_from_float(found), is_nan ? bf16 | 0x40 : bf16);
  }
}

TEST(Half, FloatToNearestBf16) {
  for (float value : samples(bf16_to_float))
    ASSERT_NO_FATAL_FAILURE(expect_nearest_even(value, bf16_from_float(value), 7));
}

TEST(Half, ConstantExpressions) {
  static_assert(half_to_float(kHalfOne) == 1.0f && half_from_float(1.0f) == kHalfOne);
  static_assert(half_to_float(0x7bff) == kHalfMax && half_from_float(65519.0f) == 0x7bff);
  static_assert(half_from_float(65520.0f) == 0x7c00 && !half_is_finite(0x7c00) && !half_is_finite(kHalfNan));
  static_assert(bf16_to_float(0x3f80) == 1.0f && bf16_from_float(-1.0f) == 0xbf80);
}

__attribute__((target("avx,f16c"))) float f16c_to_float(uint16_t half) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

__attribute__((target("avx,f16c"))) uint16_t f16c_from_float(float value) {
  const __m128i half = _mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return static_cast<uint16_t>(_mm_cvtsi128_si32(half));
}

TEST(Half, EqualsF16cBitForBit) {
  // Every CPU with AVX2 has F16C, which older compilers cannot ask for by name.
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "this CPU has no F16C; FloatToNearestHalf covers the definition";
  for (int i = 0; i < 0x10000; ++i) {
    const auto half = static_cast<uint16_t>(i);
    ASSERT_EQ(bits_of(half_to_float(half)), bits_of(f16c_to_float(half))) << i;
  }
  for (float value : samples(half_to_float)) {
    ASSERT_EQ(half_from_float(value), f16c_from_float(value)) << std::hex << bits_of(value);
  }
  std::cout << "F16C: 65536 halves and " << samples(half_to_float).size() << " floats equal\n";
}

}  // namespace
}  // namespace dspark
