// The search for scales of the formats without a minimum: value = d · scale[j] · weight, with a signed integer scale
// for each sub-block (method: scale_search.h). Internal to formats/. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/formats/block_codec.h"
#include "kernels/formats/scale_search.h"
#include "kernels/half.h"

namespace dspark {

// Weights kLow..kHigh, all of them. Another set of weights (iq4_codes.h) provides the same members.
template <int kLow, int kHigh>
struct UniformCodes {
  static constexpr float kFirst = kLow;
  static constexpr float kLast = kHigh;
  static Float4 nearest(Float4 value) { return round4(clamp4(value, kLow, kHigh)); }
  static int code(float weight) { return static_cast<int>(weight) - kLow; }
};

struct SignedScales {
  uint16_t d;
  int8_t scale[16];
};

// Sums over a sub-block, for the weights nearest to in[i] · inverse.
struct SignedSums {
  float xw;  // Σ value · weight
  float ww;  // Σ weight²
};

template <class Codes, int kSub>
SignedSums signed_sums(const float* in, float inverse) {
  Float4 xw{};
  Float4 ww{};
  for (int i = 0; i < kSub; i += 4) {
    const Float4 x = load4(in + i);
    const Float4 weight = Codes::nearest(x * inverse);
    xw += x * weight;
    ww += weight * weight;
  }
  return {sum4(xw), sum4(ww)};
}

template <class Codes, int kSub>
float signed_error(const float* in, float scale) {
  const float inverse = inverse_or_zero(scale);
  Float4 error{};
  for (int i = 0; i < kSub; i += 4) {
    const Float4 x = load4(in + i);
    const Float4 rest = x - scale * Codes::nearest(x * inverse);
    error += rest * rest;
  }
  return sum4(error);
}

// The scale with the least error for one sub-block, 0 if it holds nothing but zeros. The value of largest magnitude
// becomes the first or the last weight, or lies up to 20 % inside or beyond; then the best of these is refined once.
template <class Codes, int kSub>
float fit_scale(const float* in) {
  constexpr int kSteps = 9;
  float extreme = 0.0f;
  for (int i = 0; i < kSub; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  if (std::fabs(extreme) < kNothing) return 0.0f;
  float best_gain = 0.0f;
  float best = 0.0f;
  const auto try_inverse = [&](float inverse) {
    const SignedSums sums = signed_sums<Codes, kSub>(in, inverse);
    // With the scale xw / ww the error is Σ x² − xw² / ww.
    if (sums.xw * sums.xw > best_gain * sums.ww) {
      best = sums.xw / sums.ww;
      best_gain = sums.xw * best;
    }
  };
  for (int step = 0; step < kSteps; ++step) {
    const float stretch = step_between(0.8f, 1.2f, step, kSteps) / extreme;
    try_inverse(Codes::kFirst * stretch);
    try_inverse(Codes::kLast * stretch);
  }
  try_inverse(inverse_or_zero(best));
  return best;
}

template <class Codes, int kSub>
void choose_codes(const float* in, float scale, uint8_t* codes) {
  const float inverse = inverse_or_zero(scale);
  for (int i = 0; i < kSub; i += 4) {
    const Float4 weights = Codes::nearest(load4(in + i) * inverse);
    for (int j = 0; j < 4; ++j) codes[i + j] = static_cast<uint8_t>(Codes::code(weights[j]));
  }
}

// d such that the largest of the ideal scales becomes kScaleLow, and the integers nearest to the ideal scales.
template <int kSubs, int kScaleLow>
SignedScales round_scales(const float* ideal) {
  float extreme = 0.0f;
  for (int j = 0; j < kSubs; ++j) {
    if (std::fabs(ideal[j]) > std::fabs(extreme)) extreme = ideal[j];
  }
  SignedScales scales{half_from_float(extreme / kScaleLow), {}};
  const float inverse = inverse_or_zero(half_to_float(scales.d));
  for (int j = 0; j < kSubs; ++j) {
    scales.scale[j] = static_cast<int8_t>(nearest_integer(ideal[j] * inverse, kScaleLow, -kScaleLow - 1));
  }
  return scales;
}

// Moves each scale to the best of itself and its two neighbours. Returns the error; *better_d is the d with the least
// error for the codes that these scales choose.
template <class Codes, int kSub, int kScaleLow>
float improve_scales(const float* in, SignedScales& scales, uint16_t* better_d) {
  const float d = half_to_float(scales.d);
  float total_error = 0.0f;
  float product = 0.0f;
  float squares = 0.0f;
  for (int j = 0; j < kMaxBlockElements / kSub; ++j) {
    const float* x = in + j * kSub;
    const int center = scales.scale[j];
    float least = __builtin_inff();
    for (int s = std::max(center - 1, kScaleLow); s <= std::min(center + 1, -kScaleLow - 1); ++s) {
      const float error = signed_error<Codes, kSub>(x, d * static_cast<float>(s));
      if (error < least) {
        least = error;
        scales.scale[j] = static_cast<int8_t>(s);
      }
    }
    const float s = scales.scale[j];
    const SignedSums sums = signed_sums<Codes, kSub>(x, inverse_or_zero(d * s));
    total_error += least;
    product += s * sums.xw;
    squares += s * s * sums.ww;
  }
  *better_d = squares > 0.0f ? half_from_float(product / squares) : scales.d;
  return total_error;
}

// The scales of a block of 256 in sub-blocks of kSub, from kScaleLow to −kScaleLow − 1, and the code of each value.
template <class Codes, int kSub, int kScaleLow>
SignedScales search_signed_scales(const float* in, uint8_t* codes) {
  constexpr int kSubs = kMaxBlockElements / kSub;
  float ideal[kSubs];
  for (int j = 0; j < kSubs; ++j) ideal[j] = fit_scale<Codes, kSub>(in + j * kSub);
  SignedScales current = round_scales<kSubs, kScaleLow>(ideal);
  SignedScales best = current;
  float best_error = __builtin_inff();
  for (int round = 0; round < kSearchRounds && half_is_finite(current.d); ++round) {
    uint16_t better_d;
    const float error = improve_scales<Codes, kSub, kScaleLow>(in, current, &better_d);
    if (!(error < best_error)) break;
    best_error = error;
    best = current;
    current.d = better_d;
  }
  const float d = half_to_float(best.d);
  for (int j = 0; j < kSubs; ++j) {
    choose_codes<Codes, kSub>(in + j * kSub, d * static_cast<float>(best.scale[j]), codes + j * kSub);
  }
  return best;
}

}  // namespace dspark
