// Simulator: the verification planner against a virtual clock, over a given cost curve and a given model of how drafted
// tokens survive (`dspark sim`). It answers what planning is worth on a machine, before there is one. Pure and
// deterministic for a seed; main thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/verify_plan.h"

namespace dspark {

// The curve that DeepInfer's published table implies: with five drafted tokens for each of 16, 60 and 96 sequences, at
// 75 % acceptance, steps of 96, 360 and 576 rows take what 4,891, 13,730 and 16,817 tokens a second leave them. On the
// lines between the points, and beyond them on the nearest line.
struct CostCurve {
  std::string name;
  std::vector<CostPoint> points;  // ascending rows
  double ms(int rows) const;
};
CostCurve deepinfer_curve();

// How each drafted token fares, given that all before it were accepted.
enum class SurvivalModel {
  kIndependent,  // every token with the same chance
  kSpread,       // chances spread by a beta distribution: some drafts are good, some are not
  kTraces,       // chances and outcomes as recorded, rescaled to the same mean
};
const char* survival_model_name(SurvivalModel model);

// A recorded draft: the calibrated chance of each token given those before it.
using SurvivalTrace = std::vector<float>;

struct SimOptions {
  double acceptance = 0.75;  // mean chance of a drafted token, given those before it
  int block = 5;             // drafted tokens a step
  int steps = 2000;
  uint64_t seed = 0;
  // The beta distribution of kSpread has this sum of parameters: 1 is nearly all or nothing, 100 nearly independent.
  double spread = 2.0;
  // What the planner sees of a chance: the best guess after so many trial tosses of it, which is calibrated.
  int tosses = 8;
};

// One setting at one load.
struct SimResult {
  double tokens_per_second = 0.0;
  double per_user = 0.0;
  double tokens_per_step = 0.0;  // of one sequence
  double verified = 0.0;         // drafted tokens of one sequence and step
};

struct SimPoint {
  int sequences = 0;
  SurvivalModel survival = SurvivalModel::kIndependent;
  SimResult off, fixed, planned, oracle;  // fixed: the whole block
  double gain_percent() const { return 100.0 * (planned.tokens_per_second / fixed.tokens_per_second - 1.0); }
  double oracle_gain_percent() const { return 100.0 * (oracle.tokens_per_second / fixed.tokens_per_second - 1.0); }
};

// All settings meet the same drafts. kInvalidArgument for options out of range, and for kTraces without a trace.
Result<SimPoint> simulate(const CostCurve& curve, int sequences, SurvivalModel survival,
                          std::span<const SurvivalTrace> traces, const SimOptions& options);

}  // namespace dspark
