// See tune_search.h.
#include "tools/tune_search.h"

namespace dspark {
namespace {

using Measure = std::function<Result<Round>(const Candidate&)>;

// Rounds of both in turn, until the interval leaves no doubt.
Result<Interval> compare(const Candidate& a, const Candidate& b, const TuneLimits& limits, const Measure& measure) {
  std::vector<Round> of_a, of_b;
  Interval ratio;
  for (int round = 1; round <= limits.most_rounds; ++round) {
    DSPARK_TRY(Round first, measure(round % 2 == 1 ? a : b));
    DSPARK_TRY(Round second, measure(round % 2 == 1 ? b : a));
    of_a.push_back(std::move(round % 2 == 1 ? first : second));
    of_b.push_back(std::move(round % 2 == 1 ? second : first));
    if (round < limits.least_rounds) continue;
    ratio = ratio_interval(of_a, of_b, mean_whole);
    if (ratio.below(1.0 - limits.least_gain) || ratio.above(1.0)) break;
  }
  return ratio;
}

}  // namespace

TuneResult search_settings(const Candidate& start, const std::vector<Knob>& knobs, const TuneLimits& limits,
                           const Measure& measure, const std::function<bool()>& out_of_time) {
  TuneResult out = {.best = start};
  constexpr int kMostPasses = 2;  // settings that depend on each other get a second chance
  for (int pass = 0; pass < kMostPasses; ++pass) {
    bool changed = false;
    for (const Knob& knob : knobs) {
      for (const std::string& value : knob.values) {
        if (value == out.best[knob.setting]) continue;
        if (out_of_time()) {
          out.in_time = false;
          return out;
        }
        Candidate other = out.best;
        other[knob.setting] = value;
        const auto compared = compare(other, out.best, limits, measure);
        if (!compared.ok()) {
          out.trials.push_back({knob.setting, value, out.best[knob.setting], {}, false, compared.error().message});
          continue;
        }
        const Interval ratio = *compared;
        const bool better = ratio.below(1.0) && ratio.value < 1.0 - limits.least_gain;
        out.trials.push_back({knob.setting, value, out.best[knob.setting], ratio, better, ""});
        if (!better) continue;
        out.best = std::move(other);
        changed = true;
      }
    }
    if (!changed) break;
  }
  return out;
}

}  // namespace dspark
