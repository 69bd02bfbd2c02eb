// See cut_probe.h.
#include "schedule/cut_probe.h"

#include <algorithm>

namespace dspark {

VerifyPlan CutProbe::plan(std::span<const DraftedSequence> sequences, const StepBase& base, const CostModel& cost,
                          const VerifyLimits& limits) {
  VerifyPlan plan = plan_verification(sequences, base, cost, limits);
  if (limits.fixed >= 0) return plan;
  const int least = plan.shape.rows - plan.budget;
  int most = least;
  for (const DraftedSequence& sequence : sequences) {
    most += std::min(limits.most_each, static_cast<int>(sequence.survival.size()));
  }
  if (ran_at_.size() <= static_cast<size_t>(most)) ran_at_.resize(static_cast<size_t>(most) + 1);
  if (++steps_ % kProbeEvery == 0 && most > least) {
    int oldest = plan.shape.rows;
    for (int rows = least; rows <= most; ++rows) {
      StepShape shape = plan.shape;
      shape.rows = rows;
      if (cost.ms(shape) > kMostCost * plan.expected_ms) break;
      if (ran_at_[static_cast<size_t>(rows)] < ran_at_[static_cast<size_t>(oldest)]) oldest = rows;
    }
    if (oldest != plan.shape.rows) {
      VerifyLimits probe = limits;
      probe.budget = oldest - least;
      plan = plan_verification(sequences, base, cost, probe);
    }
  }
  ran_at_[static_cast<size_t>(plan.shape.rows)] = steps_;
  return plan;
}

}  // namespace dspark
