// The search of `dspark tune`: one setting after the other, each other value against the best so far, in alternation
// and as long as it takes to tell them apart. Knows nothing of engines: somebody else measures. Main thread.
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
  Interval ratio;  // of the mean time of a request, below 1: better
  bool taken = false;
  std::string failure;  // why it could not be measured; empty: it was
};

struct TuneResult {
  Candidate best;
  std::vector<TuneTrial> trials = {};
  bool in_time = true;  // every value was tried
};

struct TuneLimits {
  int least_rounds = 3, most_rounds = 6;  // of each of two that are compared
  double least_gain = 0.01;               // what is less is not worth a change
};

// `measure` plays the log once. `out_of_time` is asked before each comparison. Passes through the knobs until one
// changes nothing any more. A value that cannot be measured (too little memory for the log) is passed over.
TuneResult search_settings(const Candidate& start, const std::vector<Knob>& knobs, const TuneLimits& limits,
                           const std::function<Result<Round>(const Candidate&)>& measure,
                           const std::function<bool()>& out_of_time);

}  // namespace dspark
