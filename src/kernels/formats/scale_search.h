// What the two searches for scales share (signed_search.h, affine_search.h). Internal to formats/. Pure functions, any
// thread.
//
// A block of 256 weights has a 16-bit d (and dmin) and integer scales (and minima) for its sub-blocks. The search for
// those with the least squared error takes three steps: each sub-block alone gets its best float scale from several
// starting points; d is set so that the largest fits; then integer scales (the current ones or a neighbour) and d
// (least squares) are improved in turn, which makes up for most of what rounding the scales costs. All sums have a
// fixed order, so that the bits depend on the input alone.
#pragma once

#include <cstdint>

#include "kernels/formats/float4.h"

namespace dspark {

// More rounds gain less than 0.3 % of the error.
inline constexpr int kSearchRounds = 3;

// Magnitudes below are zero to every format, and too small to divide by.
inline constexpr float kNothing = 1e-30f;

inline float inverse_or_zero(float value) { return value != 0.0f ? 1.0f / value : 0.0f; }

// The integer nearest to value within [low, high]; NaN gives low.
inline int nearest_integer(float value, int low, int high) {
  const float clamped = clamp4(splat4(value), static_cast<float>(low), static_cast<float>(high))[0];
  return static_cast<int>(round4(splat4(clamped))[0]);
}

// Steps of a search over [from, to], both included.
inline float step_between(float from, float to, int step, int steps) {
  return from + (to - from) * static_cast<float>(step) / static_cast<float>(steps - 1);
}

}  // namespace dspark
