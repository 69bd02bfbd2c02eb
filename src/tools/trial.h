// A short trial of the engine on this machine: what steps take, how many guesses are accepted, and what follows for
// numbers of clients. For `dspark check-env` and `dspark debug`. Main thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "schedule/cost_model.h"

namespace dspark {

// Tokens a second of all clients together, prompts not counted.
struct ExpectedSpeed {
  int clients = 0;
  double plain = 0.0;   // without guesses
  double dspark = 0.0;  // planned
  double gain() const { return plain > 0.0 ? dspark / plain - 1.0 : 0.0; }
};

struct Trial {
  std::vector<CostPoint> steps;         // that were measured
  double draft_ms = 0.0;                // a trained drafter's guesses for one sequence; 0: there is none
  std::vector<double> survival;         // by place in the draft: the chance that all up to there are accepted
  std::vector<ExpectedSpeed> expected;  // for 1, 8, 16, ... clients, as far as steps were measured
  std::vector<std::string> reasons;     // why it is as it is, for people
  int stops_paying_at = 0;              // clients; 0: nowhere in `expected`
  std::string why_no_more = {};         // clients were tried than `expected` has; empty: all were
  double one_client_gain() const { return expected.empty() ? 0.0 : expected.front().gain(); }
};

// Answers prompts of several kinds, plainly and with guesses, for about `patience`. Nothing else may use the engine.
Result<Trial> run_trial(Engine& engine, std::chrono::seconds patience);

// What planned guesses of this survival bring by `cost`, their own cost included.
ExpectedSpeed expected_speed(const CostModel& cost, std::span<const double> survival, bool costs_time, int clients);

}  // namespace dspark
