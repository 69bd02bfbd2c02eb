// The search for scales of the formats with a minimum: value = d · scale[j] · code − dmin · minimum[j], with unsigned
// integers for each sub-block (method: scale_search.h). Internal to formats/. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/formats/block_codec.h"
#include "kernels/formats/scale_search.h"
#include "kernels/half.h"

namespace dspark {

struct AffineScales {
  uint16_t d;
  uint16_t dmin;
  uint8_t scale[16];
  uint8_t minimum[16];
};

// value = scale · code − minimum in one sub-block, both at least 0.
struct FloatScale {
  float scale;
  float minimum;
};

inline FloatScale float_scale(const AffineScales& scales, int scale, int minimum) {
  return {half_to_float(scales.d) * static_cast<float>(scale),
          half_to_float(scales.dmin) * static_cast<float>(minimum)};
}

template <int kMaxCode>
Float4 nearest_code(Float4 x, float minimum, float inverse) {
  return round4(clamp4((x + minimum) * inverse, 0.0f, kMaxCode));
}

// Sums over a sub-block, for the codes nearest under a given scale. Values count from an origin, so that an offset that
// all have in common costs no precision.
struct AffineSums {
  float y;   // Σ value − origin
  float q;   // Σ code
  float qq;  // Σ code²
  float yq;  // Σ (value − origin) · code
};

template <int kSub, int kMaxCode>
AffineSums affine_sums(const float* in, FloatScale by, float origin) {
  const float inverse = inverse_or_zero(by.scale);
  Float4 y{}, q{}, qq{}, yq{};
  for (int i = 0; i < kSub; i += 4) {
    const Float4 x = load4(in + i);
    const Float4 code = nearest_code<kMaxCode>(x, by.minimum, inverse);
    y += x - origin;
    q += code;
    qq += code * code;
    yq += (x - origin) * code;
  }
  return {sum4(y), sum4(q), sum4(qq), sum4(yq)};
}

template <int kSub, int kMaxCode>
float affine_error(const float* in, FloatScale by) {
  const float inverse = inverse_or_zero(by.scale);
  Float4 error{};
  for (int i = 0; i < kSub; i += 4) {
    const Float4 x = load4(in + i);
    const Float4 rest = (x + by.minimum) - by.scale * nearest_code<kMaxCode>(x, by.minimum, inverse);
    error += rest * rest;
  }
  return sum4(error);
}

// The pair with the least error for one sub-block. The codes span a range from slightly more than that of the values to
// one that clips both ends; the best of these is refined once.
template <int kSub, int kMaxCode>
FloatScale fit_scale_and_minimum(const float* in) {
  constexpr int kSteps = 8;
  const float low = std::min(0.0f, *std::min_element(in, in + kSub));
  const float range = *std::max_element(in, in + kSub) - low;
  if (range < kNothing) return {0.0f, -low};
  float best_gain = -__builtin_inff();
  FloatScale best{range / kMaxCode, -low};
  const auto try_scale = [&](FloatScale trial) {
    const AffineSums sums = affine_sums<kSub, kMaxCode>(in, trial, low);
    const float determinant = kSub * sums.qq - sums.q * sums.q;
    if (!(determinant > 0.0f)) return;
    // Least squares for value − low ≈ scale · code + base, where the minimum −low − base may not be negative.
    float scale = (kSub * sums.yq - sums.y * sums.q) / determinant;
    float base = (sums.y - scale * sums.q) / kSub;
    if (base > -low) {
      base = -low;
      scale = (sums.yq - base * sums.q) / sums.qq;
    }
    // Σ (value − low)² less the error.
    const float gain =
        scale * (2.0f * (sums.yq - base * sums.q) - scale * sums.qq) + base * (2.0f * sums.y - base * kSub);
    if (scale > 0.0f && gain > best_gain) {
      best_gain = gain;
      best = {scale, -low - base};
    }
  };
  for (int step = 0; step < kSteps; ++step) {
    const float clipped = range / kMaxCode * step_between(-0.5f, 1.2f, step, kSteps);  // in all, at both ends
    try_scale({(range - clipped) / kMaxCode, std::max(0.0f, -low - 0.5f * clipped)});
  }
  try_scale(best);
  return best;
}

// d and dmin such that the largest of the ideal scales and minima become kMaxScale, and the nearest integers.
template <int kSubs, int kMaxScale>
AffineScales round_scales(const FloatScale* ideal) {
  FloatScale largest{0.0f, 0.0f};
  for (int j = 0; j < kSubs; ++j) {
    largest = {std::max(largest.scale, ideal[j].scale), std::max(largest.minimum, ideal[j].minimum)};
  }
  AffineScales scales{half_from_float(largest.scale / kMaxScale), half_from_float(largest.minimum / kMaxScale), {}, {}};
  const float inverse_d = inverse_or_zero(half_to_float(scales.d));
  const float inverse_dmin = inverse_or_zero(half_to_float(scales.dmin));
  for (int j = 0; j < kSubs; ++j) {
    scales.scale[j] = static_cast<uint8_t>(nearest_integer(ideal[j].scale * inverse_d, 0, kMaxScale));
    scales.minimum[j] = static_cast<uint8_t>(nearest_integer(ideal[j].minimum * inverse_dmin, 0, kMaxScale));
  }
  return scales;
}

// Least squares for d and dmin, given all integers: a = scale · code and b = minimum of each value x.
class HalvesFit {
 public:
  template <int kSub>
  void add(const AffineSums& sums, int scale, int minimum) {
    const double s = scale;
    const double m = minimum;
    aa_ += s * s * static_cast<double>(sums.qq);
    ab_ += s * m * static_cast<double>(sums.q);
    bb_ += m * m * kSub;
    ax_ += s * static_cast<double>(sums.yq);
    bx_ += m * static_cast<double>(sums.y);
  }

  // Leaves what the values do not determine, or would make negative, as it is.
  void solve(AffineScales& scales) const {
    const double determinant = aa_ * bb_ - ab_ * ab_;
    if (determinant > 1e-9 * aa_ * bb_) {
      const auto d = static_cast<float>((ax_ * bb_ - ab_ * bx_) / determinant);
      const auto dmin = static_cast<float>((ab_ * ax_ - aa_ * bx_) / determinant);
      if (d > 0.0f && dmin > 0.0f) {
        scales.d = half_from_float(d);
        scales.dmin = half_from_float(dmin);
      }
    } else if (aa_ > 0.0 && bb_ == 0.0) {
      scales.d = half_from_float(static_cast<float>(ax_ / aa_));
    }
  }

 private:
  double aa_ = 0.0, ab_ = 0.0, bb_ = 0.0, ax_ = 0.0, bx_ = 0.0;
};

// Moves each scale and minimum to the best of themselves and their neighbours. Returns the error and fills `fit`.
template <int kSub, int kMaxCode, int kMaxScale>
float improve_scales(const float* in, AffineScales& scales, HalvesFit& fit) {
  float total_error = 0.0f;
  for (int j = 0; j < kMaxBlockElements / kSub; ++j) {
    const float* x = in + j * kSub;
    const int scale = scales.scale[j];
    const int minimum = scales.minimum[j];
    float least = __builtin_inff();
    for (int s = std::max(scale - 1, 0); s <= std::min(scale + 1, kMaxScale); ++s) {
      for (int m = std::max(minimum - 1, 0); m <= std::min(minimum + 1, kMaxScale); ++m) {
        const float error = affine_error<kSub, kMaxCode>(x, float_scale(scales, s, m));
        if (error < least) {
          least = error;
          scales.scale[j] = static_cast<uint8_t>(s);
          scales.minimum[j] = static_cast<uint8_t>(m);
        }
      }
    }
    total_error += least;
    const FloatScale chosen = float_scale(scales, scales.scale[j], scales.minimum[j]);
    fit.add<kSub>(affine_sums<kSub, kMaxCode>(x, chosen, 0.0f), scales.scale[j], scales.minimum[j]);
  }
  return total_error;
}

// The scales and minima, 0..kMaxScale, of a block of 256 in sub-blocks of kSub, and the code, 0..kMaxCode, of each
// value.
template <int kSub, int kMaxCode, int kMaxScale>
AffineScales search_affine_scales(const float* in, uint8_t* codes) {
  constexpr int kSubs = kMaxBlockElements / kSub;
  FloatScale ideal[kSubs];
  for (int j = 0; j < kSubs; ++j) {
    ideal[j] = fit_scale_and_minimum<kSub, kMaxCode>(in + j * kSub);
  }
  AffineScales current = round_scales<kSubs, kMaxScale>(ideal);
  AffineScales best = current;
  float best_error = __builtin_inff();
  for (int round = 0; round < kSearchRounds && has_finite_scales(current); ++round) {
    HalvesFit fit;
    const float error = improve_scales<kSub, kMaxCode, kMaxScale>(in, current, fit);
    if (!(error < best_error)) break;
    best_error = error;
    best = current;
    fit.solve(current);
  }
  for (int j = 0; j < kSubs; ++j) {
    const FloatScale by = float_scale(best, best.scale[j], best.minimum[j]);
    const float inverse = inverse_or_zero(by.scale);
    for (int i = j * kSub; i < (j + 1) * kSub; i += 4) {
      store_bytes(nearest_code<kMaxCode>(load4(in + i), by.minimum, inverse), codes + i);
    }
  }
  return best;
}

}  // namespace dspark
