// See tune_search.h.
#include "tools/tune_search.h"

#include <algorithm>
#include <set>

namespace dspark {
namespace {

using Measure = std::function<Result<Round>(const Candidate&)>;

constexpr int kMostPasses = 2;
constexpr int kRoundsForDoubt = 2;   // after which what shows no gain is given up
constexpr double kHopeless = 0.25;   // part of the interval's half: by so much more rounds may shrink it
constexpr size_t kLooksBetween = 4;  // two looks at the best, which tell how the machine's mood changes

struct Look {
  std::string setting, value, against;
  double wait = 0.0;   // mean_wait, seconds
  double ratio = 1.0;  // to what the best takes at about the same time
};

double wait_of(const Round& round) {
  std::vector<const RequestTimes*> requests;
  requests.reserve(round.size());
  for (const RequestTimes& request : round) requests.push_back(&request);
  return mean_wait(requests);
}

// The first value of each setting that it does not have yet, then the second of each, ...: where the time ends early,
// every setting has been looked at.
std::vector<Look> others(const Candidate& best, const std::vector<Knob>& knobs) {
  std::vector<Look> out;
  size_t longest = 0;
  for (const Knob& knob : knobs) longest = std::max(longest, knob.values.size());
  for (size_t i = 0; i < longest; ++i) {
    for (const Knob& knob : knobs) {
      if (i < knob.values.size() && knob.values[i] != best.at(knob.setting)) {
        out.push_back({knob.setting, knob.values[i], best.at(knob.setting)});
      }
    }
  }
  return out;
}

class Search {
 public:
  Search(const Candidate& start, const TuneLimits& limits, const Measure& measure,
         const std::function<double()>& time_used)
      : limits_(limits), measure_(measure), time_used_(time_used), out_{.best = start} {}

  Result<TuneResult> run(const std::vector<Knob>& knobs) {
    for (int pass = 0; pass < kMostPasses; ++pass) {
      std::vector<Look> wanted = others(out_.best, knobs);
      bool changed = false;
      while (!wanted.empty() && time_used_() < 1.0) {
        DSPARK_TRY(std::vector<Look> looks, look_at(&wanted));
        changed = try_promising(std::move(looks)) || changed;
      }
      out_.in_time = out_.in_time && wanted.empty();
      if (!changed || !out_.in_time) break;
    }
    return std::move(out_);
  }

 private:
  // Takes them from the front of `wanted`, until it is time to compare: one round of each, and of the best before,
  // between and behind them.
  Result<std::vector<Look>> look_at(std::vector<Look>* wanted) {
    const double used = time_used_();
    const double until = used + limits_.looks_until * (1.0 - used);
    std::vector<Look> looks;
    DSPARK_TRY(Round round, measure_(out_.best));
    double before = wait_of(round);
    do {
      const size_t first = looks.size(), count = std::min(wanted->size(), kLooksBetween);
      for (size_t i = 0; i < count; ++i) {
        Look& look = (*wanted)[i];
        if (look.value == out_.best.at(look.setting)) continue;  // it has become the best meanwhile
        if (auto played = measure_(with(look)); played.ok()) {
          looks.push_back(std::move(look));
          looks.back().wait = wait_of(*played);
        } else {
          add_trial(look, {}).failure = played.error().message;
        }
      }
      wanted->erase(wanted->begin(), wanted->begin() + static_cast<std::ptrdiff_t>(count));
      DSPARK_TRY(round, measure_(out_.best));
      const double behind = wait_of(round);
      for (size_t i = first; i < looks.size(); ++i) looks[i].ratio = looks[i].wait / (0.5 * (before + behind));
      before = behind;
    } while (!wanted->empty() && time_used_() < until);
    return looks;
  }

  // The best-looking first; whether anything was taken.
  bool try_promising(std::vector<Look> looks) {
    std::ranges::stable_sort(looks, {}, &Look::ratio);
    std::set<std::string> taken;
    for (const Look& look : looks) {
      const bool promising = look.ratio < 1.0 - limits_.least_gain;
      // What looked worse than a value of the same setting that was taken is not worth the time.
      if (!promising || taken.contains(look.setting)) {
        add_trial(look, {look.ratio, look.ratio, look.ratio});
        continue;
      }
      if (time_used_() >= 1.0) {
        out_.in_time = false;
        add_trial(look, {look.ratio, look.ratio, look.ratio});
        continue;
      }
      if (compare(look)) taken.insert(look.setting);
    }
    return !taken.empty();
  }

  // Rounds of both in turn, until the interval leaves no doubt; whether the other is better, and taken.
  bool compare(Look look) {
    const Candidate other = with(look);
    look.against = out_.best.at(look.setting);
    TuneTrial& trial = add_trial(look, {});
    std::vector<Round> of_other, of_best;
    for (int round = 1; round <= limits_.most_rounds; ++round) {
      const bool other_first = round % 2 == 1;
      auto first = measure_(other_first ? other : out_.best);
      auto second = measure_(other_first ? out_.best : other);
      if (!first.ok() || !second.ok()) {
        trial.failure = first.ok() ? second.error().message : first.error().message;
        return false;
      }
      of_other.push_back(*std::move(other_first ? first : second));
      of_best.push_back(*std::move(other_first ? second : first));
      trial.rounds = round;
      if (round < kRoundsForDoubt) continue;
      trial.ratio = ratio_interval(of_other, of_best, mean_wait);
      if (trial.ratio.value >= 1.0 - limits_.least_gain) break;  // it looked better by chance
      if (round < limits_.least_rounds) continue;
      if (trial.ratio.below(1.0 - limits_.least_gain)) break;
      // Nor would all rounds tell so little from nothing.
      if (1.0 - trial.ratio.value < kHopeless * (trial.ratio.high - trial.ratio.value)) break;
      if (time_used_() >= 1.0) {
        out_.in_time = false;
        break;
      }
    }
    trial.taken = trial.ratio.below(1.0) && trial.ratio.value < 1.0 - limits_.least_gain;
    if (trial.taken) out_.best = other;
    return trial.taken;
  }

  Candidate with(const Look& look) const {
    Candidate out = out_.best;
    out[look.setting] = look.value;
    return out;
  }

  TuneTrial& add_trial(const Look& look, const Interval& ratio) {
    out_.trials.push_back(
        {.setting = look.setting, .value = look.value, .against = look.against, .ratio = ratio, .failure = ""});
    return out_.trials.back();
  }

  const TuneLimits& limits_;
  const Measure& measure_;
  const std::function<double()>& time_used_;
  TuneResult out_;
};

}  // namespace

Result<TuneResult> search_settings(const Candidate& start, const std::vector<Knob>& knobs, const TuneLimits& limits,
                                   const Measure& measure, const std::function<double()>& time_used) {
  return Search(start, limits, measure, time_used).run(knobs);
}

}  // namespace dspark
