// The search of `dspark tune`: a look at each other value of every setting, then what looked better against the best so
// far, in alternation and as long as it takes to tell them apart. Knows nothing of engines: somebody else measures.
// Main thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/bootstrap.h"

namespace dspark {

// A value for each setting that is searched, as a user would write it.
using Candidate = std::map<std::string, std::string>;

struct Knob {
  std::string setting;
  std::vector<std::string> values;
};

struct TuneTrial {
  std::string setting, value, against;
  Interval ratio;  // of mean_wait, below 1: better
  int rounds = 0;  // of both, that were compared; 0: a look, which tells no interval
  bool taken = false;
  std::string failure;  // why it could not be measured; empty: it was
};

struct TuneResult {
  Candidate best;
  std::vector<TuneTrial> trials = {};
  bool in_time = true;  // every value was looked at, and whatever looked better was compared
};

struct TuneLimits {
  int least_rounds = 3, most_rounds = 10;  // of each of two that are compared
  double least_gain = 0.01;                // what is less is not worth a change
  double looks_until = 0.5;                // part of the time that is left, after which what looked better is compared
};

// `measure` plays the log once. `time_used` is the part of the time that is over, 1 or more: all of it; it is asked
// before every few looks and before each comparison. Where something was taken, all values are looked at once more
// against it, as settings depend on each other. A value that cannot be measured (too little memory for the log) is
// passed over.
Result<TuneResult> search_settings(const Candidate& start, const std::vector<Knob>& knobs, const TuneLimits& limits,
                                   const std::function<Result<Round>(const Candidate&)>& measure,
                                   const std::function<double()>& time_used);

}  // namespace dspark
