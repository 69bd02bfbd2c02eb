// See online_correction.h.
#include "draft/online_correction.h"

#include <algorithm>
#include <cmath>

namespace dspark {
namespace {

// Half of an observation is left after about 700 more.
constexpr double kFade = 0.999;
// Observations as expected that stand beside the real ones, so that a few surprises do not turn everything over.
constexpr double kWeight = 32.0;
// Of a surprise, into the log-odds of the sequence: on recorded answers 1/4 to 1/16 foretold about as well.
constexpr double kStep = 1.0 / 8;
constexpr double kMostShift = 4.0;

double with_odds_times(double factor, double chance) {
  const double odds = chance / (1.0 - chance) * factor;
  return odds / (1.0 + odds);
}

}  // namespace

size_t OnlineCorrection::index(int bucket, int position) {
  const int row = std::clamp(bucket, 0, kBuckets - 1), column = std::clamp(position, 0, kMaxDraftSlots - 1);
  return static_cast<size_t>(row) * kMaxDraftSlots + static_cast<size_t>(column);
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
  return with_odds_times(rate / (1.0 - rate) * ((1.0 - mean) / mean), chance);
}

void SequenceCorrection::observe(uint64_t sequence, double chance, bool taken) {
  double& shift = shifts_[sequence];
  shift = std::clamp(shift + kStep * ((taken ? 1.0 : 0.0) - chance), -kMostShift, kMostShift);
}

double SequenceCorrection::corrected(uint64_t sequence, double chance) const {
  const auto found = shifts_.find(sequence);
  if (found == shifts_.end() || !(chance > 0.0 && chance < 1.0)) return chance;
  return with_odds_times(std::exp(found->second), chance);
}

}  // namespace dspark
