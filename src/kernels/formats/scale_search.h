// The search for scales that the formats with 256 weights a block share: which 16-bit d (and dmin), which integer scale
// (and minimum) of each sub-block give the least squared error. Internal to formats/. Pure functions, any thread.
//
// Three steps: each sub-block alone gets its best float scale from a few starting points; d is set so that the largest
// fits; then integer scales (neighbours of the current ones) and d (least squares) are improved in turn, which makes up
// for most of what rounding the scales costs. All sums have a fixed order, so that the bits depend on the input alone.
#pragma once

#include <cstdint>

#include "kernels/formats/block_codec.h"
#include "kernels/half.h"

namespace dspark {

inline constexpr int kSearchRounds = 4;

// The same order of additions whatever the vector width: 8 partial sums, then pairs.
template <int kCount>
float dot(const float* a, const float* b) {
  float lanes[8] = {};
  for (int i = 0; i < kCount; i += 8) {
    for (int j = 0; j < 8; ++j) lanes[j] += a[i + j] * b[i + j];
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

template <int kCount>
float sum(const float* a) {
  float lanes[8] = {};
  for (int i = 0; i < kCount; i += 8) {
    for (int j = 0; j < 8; ++j) lanes[j] += a[i + j];
  }
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

inline float inverse_or_zero(float value) { return value != 0.0f ? 1.0f / value : 0.0f; }

inline int clamp_int(int value, int low, int high) { return value < low ? low : (value > high ? high : value); }

// Weights kLow..kHigh, all of them.
template <int kLow, int kHigh>
struct UniformCodes {
  static constexpr float kFirst = kLow;
  static constexpr float kLast = kHigh;
  static float nearest(float value) { return round_clamp(value, kLow, kHigh); }
  static uint8_t code(float value) { return static_cast<uint8_t>(static_cast<int>(nearest(value)) - kLow); }
};

// value = d · scale[j] · weight
struct SignedScales {
  uint16_t d;
  int8_t scale[16];
};

template <class Codes, int kSub>
void nearest_weights(const float* in, float inverse, float* weights) {
  for (int i = 0; i < kSub; ++i) weights[i] = Codes::nearest(in[i] * inverse);
}

template <class Codes, int kSub>
void nearest_codes(const float* in, float scale, uint8_t* codes) {
  const float inverse = inverse_or_zero(scale);
  for (int i = 0; i < kSub; ++i) codes[i] = Codes::code(in[i] * inverse);
}

// The scale with the least squared error, 0 for (nearly) nothing but zeros.
template <class Codes, int kSub>
float fit_scale(const float* in) {
  constexpr int kSteps = 9;
  float extreme = 0.0f;
  for (int i = 0; i < kSub; ++i) {
    if (std::fabs(in[i]) > std::fabs(extreme)) extreme = in[i];
  }
  if (std::fabs(extreme) < 1e-30f) return 0.0f;
  float weights[kSub];
  float best_gain = 0.0f;
  float best = 0.0f;
  const auto try_inverse = [&](float inverse) {
    nearest_weights<Codes, kSub>(in, inverse, weights);
    const float squares = dot<kSub>(weights, weights);
    const float product = dot<kSub>(in, weights);
    // With the scale product / squares the squared error is Σx² − product² / squares.
    if (product * product > best_gain * squares) {
      best = product / squares;
      best_gain = product * best;
    }
  };
  // The extreme value becomes the first or the last weight, or one up to 30 % beyond, which clips it.
  for (int step = 0; step < kSteps; ++step) {
    const float stretch = (0.95f + 0.35f * static_cast<float>(step) / (kSteps - 1)) / extreme;
    try_inverse(Codes::kFirst * stretch);
    try_inverse(Codes::kLast * stretch);
  }
  for (int i = 0; i < 2; ++i) try_inverse(inverse_or_zero(best));
  return best;
}

// For 256 values in sub-blocks of kSub; integer scales kScaleLow..kScaleHigh with kScaleLow = −kScaleHigh − 1. `codes`
// gets those chosen.
template <class Codes, int kSub, int kScaleLow>
SignedScales search_signed_scales(const float* in, uint8_t* codes) {
  constexpr int kSubs = kMaxBlockElements / kSub;
  float ideal[kSubs];
  float extreme = 0.0f;
  for (int j = 0; j < kSubs; ++j) {
    ideal[j] = fit_scale<Codes, kSub>(in + j * kSub);
    if (std::fabs(ideal[j]) > std::fabs(extreme)) extreme = ideal[j];
  }
  SignedScales current{half_from_float(extreme / kScaleLow), {}};
  const float inverse_d = inverse_or_zero(half_to_float(current.d));
  for (int j = 0; j < kSubs; ++j) {
    current.scale[j] = static_cast<int8_t>(round_clamp(ideal[j] * inverse_d, kScaleLow, -kScaleLow - 1));
  }
  SignedScales best = current;
  float best_error = __builtin_inff();
  for (int round = 0; round < kSearchRounds && half_is_finite(current.d); ++round) {
    const float d = half_to_float(current.d);
    float total_error = 0.0f;
    double product = 0.0;
    double squares = 0.0;
    for (int j = 0; j < kSubs; ++j) {
      const float* x = in + j * kSub;
      float least = __builtin_inff();
      int chosen = 0;
      float chosen_product = 0.0f;
      float chosen_squares = 0.0f;
      const int center = current.scale[j];
      for (int s = clamp_int(center - 1, kScaleLow, -kScaleLow - 1); s <= center + 1 && s < -kScaleLow; ++s) {
        float trial[kSub];
        float rest[kSub];
        const float scale = d * static_cast<float>(s);
        nearest_weights<Codes, kSub>(x, inverse_or_zero(scale), trial);
        for (int i = 0; i < kSub; ++i) rest[i] = x[i] - scale * trial[i];
        const float error = dot<kSub>(rest, rest);
        if (error < least) {
          least = error;
          chosen = s;
          chosen_product = static_cast<float>(s) * dot<kSub>(x, trial);
          chosen_squares = static_cast<float>(s * s) * dot<kSub>(trial, trial);
        }
      }
      current.scale[j] = static_cast<int8_t>(chosen);
      total_error += least;
      product += static_cast<double>(chosen_product);
      squares += static_cast<double>(chosen_squares);
    }
    if (!(total_error < best_error)) break;
    best_error = total_error;
    best = current;
    if (squares > 0.0) current.d = half_from_float(static_cast<float>(product / squares));
  }
  const float d = half_to_float(best.d);
  for (int j = 0; j < kSubs; ++j) {
    nearest_codes<Codes, kSub>(in + j * kSub, d * static_cast<float>(best.scale[j]), codes + j * kSub);
  }
  return best;
}

// value = d · scale[j] · code − dmin · minimum[j]
struct ScalesAndMinima {
  uint16_t d;
  uint16_t dmin;
  uint8_t scale[16];
  uint8_t minimum[16];
};

// value = scale · code − minimum, both at least 0.
struct FloatScale {
  float scale;
  float minimum;
};

template <int kSub, int kMaxCode>
void nearest_codes(const float* in, FloatScale by, float* codes) {
  const float inverse = inverse_or_zero(by.scale);
  for (int i = 0; i < kSub; ++i) codes[i] = round_clamp((in[i] + by.minimum) * inverse, 0.0f, kMaxCode);
}

// The pair with the least squared error.
template <int kSub, int kMaxCode>
FloatScale fit_scale_and_minimum(const float* in) {
  constexpr int kSteps = 12;
  float low = 0.0f;
  float high = in[0];
  for (int i = 0; i < kSub; ++i) {
    low = in[i] < low ? in[i] : low;
    high = in[i] > high ? in[i] : high;
  }
  if (high - low < 1e-30f) return {0.0f, -low};
  const float sum_x = sum<kSub>(in);
  float codes[kSub];
  float best_gain = -__builtin_inff();
  FloatScale best{(high - low) / kMaxCode, -low};
  const auto try_scale = [&](FloatScale trial) {
    nearest_codes<kSub, kMaxCode>(in, trial, codes);
    const float sum_q = sum<kSub>(codes);
    const float sum_qq = dot<kSub>(codes, codes);
    const float sum_xq = dot<kSub>(in, codes);
    const float determinant = kSub * sum_qq - sum_q * sum_q;
    if (!(determinant > 0.0f)) return;
    float scale = (kSub * sum_xq - sum_x * sum_q) / determinant;
    float minimum = (scale * sum_q - sum_x) / kSub;
    if (minimum < 0.0f) {
      minimum = 0.0f;
      scale = sum_xq / sum_qq;
    }
    // Σx² less the squared error.
    const float gain = 2.0f * (scale * sum_xq - minimum * sum_x) - scale * scale * sum_qq +
                       2.0f * scale * minimum * sum_q - kSub * minimum * minimum;
    if (scale > 0.0f && gain > best_gain) {
      best_gain = gain;
      best = {scale, minimum};
    }
  };
  // The range shrinks from slightly more than all codes' to one that clips both ends, to half a dozen code steps.
  for (int step = 0; step < kSteps; ++step) {
    const float margin = (high - low) * (0.25f * static_cast<float>(step - 2)) / (kMaxCode + 6.0f);
    const float from = low + 0.5f * margin < 0.0f ? low + 0.5f * margin : low;
    try_scale({(high - low - margin) / kMaxCode, -from});
  }
  for (int i = 0; i < 2; ++i) try_scale(best);
  return best;
}

// For 256 values in sub-blocks of kSub; integer scales and minima 0..kMaxScale, codes 0..kMaxCode; `codes` gets those
// chosen.
template <int kSub, int kMaxCode, int kMaxScale>
ScalesAndMinima search_scales_and_minima(const float* in, uint8_t* codes) {
  constexpr int kSubs = kMaxBlockElements / kSub;
  FloatScale ideal[kSubs];
  FloatScale largest{0.0f, 0.0f};
  for (int j = 0; j < kSubs; ++j) {
    ideal[j] = fit_scale_and_minimum<kSub, kMaxCode>(in + j * kSub);
    largest.scale = ideal[j].scale > largest.scale ? ideal[j].scale : largest.scale;
    largest.minimum = ideal[j].minimum > largest.minimum ? ideal[j].minimum : largest.minimum;
  }
  ScalesAndMinima current{
      half_from_float(largest.scale / kMaxScale), half_from_float(largest.minimum / kMaxScale), {}, {}};
  const float inverse_d = inverse_or_zero(half_to_float(current.d));
  const float inverse_dmin = inverse_or_zero(half_to_float(current.dmin));
  for (int j = 0; j < kSubs; ++j) {
    current.scale[j] = static_cast<uint8_t>(round_clamp(ideal[j].scale * inverse_d, 0.0f, kMaxScale));
    current.minimum[j] = static_cast<uint8_t>(round_clamp(ideal[j].minimum * inverse_dmin, 0.0f, kMaxScale));
  }
  ScalesAndMinima best = current;
  float best_error = __builtin_inff();
  for (int round = 0; round < kSearchRounds && half_is_finite(current.d) && half_is_finite(current.dmin); ++round) {
    const float d = half_to_float(current.d);
    const float dmin = half_to_float(current.dmin);
    float total_error = 0.0f;
    double aa = 0.0, ab = 0.0, bb = 0.0, ax = 0.0, bx = 0.0;  // a = scale · code, b = minimum, of each value x
    for (int j = 0; j < kSubs; ++j) {
      const float* x = in + j * kSub;
      float least = __builtin_inff();
      int chosen_scale = 0;
      int chosen_minimum = 0;
      float chosen_codes[kSub] = {};
      const int s_from = clamp_int(current.scale[j] - 1, 0, kMaxScale);
      const int s_to = clamp_int(current.scale[j] + 1, 0, kMaxScale);
      const int m_from = clamp_int(current.minimum[j] - 1, 0, kMaxScale);
      const int m_to = clamp_int(current.minimum[j] + 1, 0, kMaxScale);
      for (int s = s_from; s <= s_to; ++s) {
        for (int m = m_from; m <= m_to; ++m) {
          float trial[kSub];
          float rest[kSub];
          const FloatScale by{d * static_cast<float>(s), dmin * static_cast<float>(m)};
          nearest_codes<kSub, kMaxCode>(x, by, trial);
          for (int i = 0; i < kSub; ++i) rest[i] = x[i] + by.minimum - by.scale * trial[i];
          const float error = dot<kSub>(rest, rest);
          if (error < least) {
            least = error;
            chosen_scale = s;
            chosen_minimum = m;
            std::memcpy(chosen_codes, trial, sizeof(trial));
          }
        }
      }
      current.scale[j] = static_cast<uint8_t>(chosen_scale);
      current.minimum[j] = static_cast<uint8_t>(chosen_minimum);
      total_error += least;
      const double s = chosen_scale;
      const double m = chosen_minimum;
      const double sum_q = static_cast<double>(sum<kSub>(chosen_codes));
      aa += s * s * static_cast<double>(dot<kSub>(chosen_codes, chosen_codes));
      ab += s * m * sum_q;
      bb += m * m * kSub;
      ax += s * static_cast<double>(dot<kSub>(x, chosen_codes));
      bx += m * static_cast<double>(sum<kSub>(x));
    }
    if (!(total_error < best_error)) break;
    best_error = total_error;
    best = current;
    const double determinant = aa * bb - ab * ab;
    if (determinant > 1e-9 * aa * bb) {
      const auto new_d = static_cast<float>((ax * bb - ab * bx) / determinant);
      const auto new_dmin = static_cast<float>((ab * ax - aa * bx) / determinant);
      if (new_d > 0.0f && new_dmin > 0.0f) {
        current.d = half_from_float(new_d);
        current.dmin = half_from_float(new_dmin);
      }
    } else if (aa > 0.0 && bb == 0.0) {
      current.d = half_from_float(static_cast<float>(ax / aa));
    }
  }
  for (int j = 0; j < kSubs; ++j) {
    const FloatScale by{half_to_float(best.d) * static_cast<float>(best.scale[j]),
                        half_to_float(best.dmin) * static_cast<float>(best.minimum[j])};
    float nearest[kSub];
    nearest_codes<kSub, kMaxCode>(in + j * kSub, by, nearest);
    for (int i = 0; i < kSub; ++i) codes[j * kSub + i] = static_cast<uint8_t>(nearest[i]);
  }
  return best;
}

}  // namespace dspark
