// The 16 unevenly spaced weights of IQ4_NL and IQ4_XS. Internal to formats/. Constant data and pure functions, any
// thread.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/formats/float4.h"

namespace dspark {

inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Entry k is the code of the weight nearest to every value in [(k − 256) / 2, (k − 255) / 2): two weights meet halfway,
// which is always at the edge of such a step.
inline constexpr std::array<uint8_t, 512> kIq4Nearest = [] {
  std::array<uint8_t, 512> table{};
  int code = 0;
  for (int k = 0; k < 512; ++k) {
    while (code < 15 && k - 256 >= kIq4Values[code] + kIq4Values[code + 1]) ++code;
    table[static_cast<size_t>(k)] = static_cast<uint8_t>(code);
  }
  return table;
}();

// For signed_search.h.
struct Iq4Codes {
  static constexpr float kFirst = kIq4Values[0];
  static constexpr float kLast = kIq4Values[15];
  static int code(float weight) { return kIq4Nearest[static_cast<size_t>(2 * static_cast<int>(weight) + 256)]; }
  static Float4 nearest(Float4 value) {
    const Int4 step = __builtin_convertvector(clamp4(2.0f * value + 256.0f, 0.0f, 511.0f), Int4);
    Float4 weights;
    for (int i = 0; i < 4; ++i) weights[i] = kIq4Values[kIq4Nearest[static_cast<size_t>(step[i])]];
    return weights;
  }
};

}  // namespace dspark
