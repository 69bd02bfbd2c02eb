// See online_correction.h.
#include "draft/online_correction.h"

#include <algorithm>

namespace dspark {
namespace {

// Half of an observation is left after about 700 more.
constexpr double kFade = 0.999;
// Observations as expected that stand beside the real ones, so that a few surprises do not turn everything over.
constexpr double kWeight = 32.0;

}  // namespace

size_t OnlineCorrection::index(int bucket, int position) {
  const int row = std::clamp(bucket, 0, kBuckets - 1), column = std::clamp(position, 0, kMaxDraftSlots - 1);
  return static_cast<size_t>(row * kMaxDraftSlots + column);
}

void OnlineCorrection::observe(int bucket, int position, double chance, bool taken) {
  Sums& sums = sums_[index(bucket, position)];
  sums.tried = sums.tried * kFade + 1.0;
  sums.expected = sums.expected * kFade + chance;
  sums.taken = sums.taken * kFade + (taken ? 1.0 : 0.0);
}

double OnlineCorrection::corrected(int bucket, int position, double chance) const {
  const Sums& sums = sums_[index(bucket, position)];
  if (sums.tried == 0.0 || !(chance > 0.0 && chance < 1.0)) return chance;
  const double mean = std::clamp(sums.expected / sums.tried, 1e-3, 1.0 - 1e-3);
  const double rate = (sums.taken + kWeight * mean) / (sums.tried + kWeight);
  const double factor = rate / (1.0 - rate) * ((1.0 - mean) / mean);
  const double odds = chance / (1.0 - chance) * factor;
  return odds / (1.0 + odds);
}

}  // namespace dspark
