// GGML's reference quantisation of the formats with 32 weights a block: the scale follows from the range of the values.
// Internal to
// formats/. Pure functions, any thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formats/float4.h"
#include "kernels/half.h"

namespace dspark {

// value = d · (code − half_codes): the value of largest magnitude (the first, of equals) gets code 0. Returns d as
// half.
inline uint16_t encode_symmetric(const float* in, int half_codes, uint8_t (&codes)[32]) {
  float extreme = 0.0f;
  for (int i = 0; i < 32; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  const float d = extreme / static_cast<float>(-half_codes);
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  const float shift = static_cast<float>(half_codes) + 0.5f;
  const float max_code = static_cast<float>(2 * half_codes - 1);
  for (int i = 0; i < 32; i += 4) store_bytes(clamp4(load4(in + i) * inverse + shift, 0.0f, max_code), codes + i);
  return half_from_float(d);
}

struct RangeScale {
  uint16_t d;
  uint16_t m;
};

// value = d · code + m: the smallest value gets code 0, the largest max_code.
inline RangeScale encode_range(const float* in, int max_code, uint8_t (&codes)[32]) {
  float low = in[0];
  float high = in[0];
  for (int i = 1; i < 32; ++i) {
    low = in[i] < low ? in[i] : low;
    high = in[i] > high ? in[i] : high;
  }
  const float d = (high - low) / static_cast<float>(max_code);
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  for (int i = 0; i < 32; i += 4) {
    store_bytes(clamp4((load4(in + i) - low) * inverse + 0.5f, 0.0f, static_cast<float>(max_code)), codes + i);
  }
  return {half_from_float(d), half_from_float(low)};
}

}  // namespace dspark
