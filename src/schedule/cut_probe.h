// CutProbe: verification plans that now and then try a size that does not look best. A cost that is believed too high
// would keep the planner away from its size, and the belief could never be corrected; one step in kProbeEvery is spent
// on finding out. Pure but for its memory; the step thread, simulators, tests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "schedule/verify_plan.h"

namespace dspark {

class CutProbe {
 public:
  static constexpr int64_t kProbeEvery = 256;  // planned steps
  static constexpr double kMostCost = 2.0;     // a probe's expected time, in times of the best plan's

  // plan_verification, or with the same arguments the plan of the size that has not run for longest.
  VerifyPlan plan(std::span<const DraftedSequence> sequences, const StepBase& base, const CostModel& cost,
                  const VerifyLimits& limits);

 private:
  std::vector<int64_t> ran_at_;  // by rows: the planned step
  int64_t steps_ = 0;
};

}  // namespace dspark
