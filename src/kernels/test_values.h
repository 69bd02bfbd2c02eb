// What the tests of kernels share: the instruction sets at hand, input values and comparison of bits. Tests only.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/isa.h"

namespace dspark::testing_values {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kMax = std::numeric_limits<float>::max();
inline constexpr float kMinNormal = std::numeric_limits<float>::min();
inline constexpr float kSubnormal = std::numeric_limits<float>::denorm_min();

// Supported here, portable first. Recorded in the test's output, so that a log shows what was compared.
inline std::vector<Isa> isas_here() {
  std::vector<Isa> out;
  std::string names;
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (!isa_supported(isa)) continue;
    out.push_back(isa);
    names += std::string(names.empty() ? "" : ",") + isa_name(isa);
  }
  ::testing::Test::RecordProperty("isas", names);
  return out;
}

// Prints the instruction sets once, for readers of a test log.
inline void print_isas() {
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    std::printf("[   ISA    ] %s: %s\n", isa_name(isa), isa_supported(isa) ? "compared" : "not supported here");
  }
}

enum class Kind {
  kNormal,   // standard normal
  kWide,     // every finite exponent, both signs
  kSpecial,  // kWide with NaN, infinities, zeros, subnormals and the largest values between
};
inline constexpr Kind kKinds[] = {Kind::kNormal, Kind::kWide, Kind::kSpecial};

inline std::vector<float> values(Kind kind, int64_t n, uint32_t seed) {
  constexpr float kSpecials[] = {kNan,       kInf,        -kInf, 0.0f,  -0.0f, kSubnormal,      -kSubnormal,
                                 kMinNormal, -kMinNormal, kMax,  -kMax, 1.0f,  0x1.fffffcp-127f};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) {
    if (kind == Kind::kNormal) {
      x = normal(random);
    } else if (kind == Kind::kSpecial && random() % 4 == 0) {
      x = kSpecials[random() % std::size(kSpecials)];
    } else {
      do x = std::bit_cast<float>(static_cast<uint32_t>(random()));
      while (!std::isfinite(x));
    }
  }
  return out;
}

inline std::vector<float> normals(int64_t n, uint32_t seed) { return values(Kind::kNormal, n, seed); }

inline bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// All elements have the same bits; NaN equals NaN.
inline ::testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " values";
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return ::testing::AssertionFailure() << std::hexfloat << "index " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace dspark::testing_values
