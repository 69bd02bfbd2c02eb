// See speculation_stats.h.
#include "engine/speculation_stats.h"

#include <cmath>
#include <limits>

namespace dspark {

double calibration_error(const SurvivalBins& bins) {
  double off = 0.0;
  int64_t tokens = 0;
  for (const SurvivalBin& bin : bins) {
    off += std::abs(bin.foretold - static_cast<double>(bin.accepted));
    tokens += bin.tokens;
  }
  return tokens == 0 ? 0.0 : off / static_cast<double>(tokens);
}

double area_under_curve(const SurvivalBins& bins) {
  double higher = 0.0, rejected_below = 0.0, accepted = 0.0;
  for (const SurvivalBin& bin : bins) {
    const double good = static_cast<double>(bin.accepted), bad = static_cast<double>(bin.tokens - bin.accepted);
    higher += good * (rejected_below + 0.5 * bad);
    rejected_below += bad;
    accepted += good;
  }
  const double pairs = accepted * rejected_below;
  return pairs > 0.0 ? higher / pairs : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace dspark
