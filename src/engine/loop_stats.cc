// See loop_stats.h.
#include "engine/loop_stats.h"

#include <algorithm>

namespace dspark {

void StepTimes::add(double step_seconds) {
  const auto* bound = std::ranges::lower_bound(kStepBounds, step_seconds);
  ++steps[static_cast<size_t>(bound - kStepBounds.begin())];
  seconds += step_seconds;
}

LoopStats LoopStats::operator-(const LoopStats& earlier) const {
  LoopStats out = *this;
  out.steps -= earlier.steps;
  out.requests -= earlier.requests;
  out.prompt_tokens -= earlier.prompt_tokens;
  out.cached_tokens -= earlier.cached_tokens;
  out.output_tokens -= earlier.output_tokens;
  out.decode_rows -= earlier.decode_rows;
  out.prompt_rows -= earlier.prompt_rows;
  out.drafted -= earlier.drafted;
  out.accepted -= earlier.accepted;
  out.preemptions -= earlier.preemptions;
  out.plan_seconds -= earlier.plan_seconds;
  out.forward_seconds -= earlier.forward_seconds;
  out.draw_seconds -= earlier.draw_seconds;
  out.deliver_seconds -= earlier.deliver_seconds;
  out.gap_seconds -= earlier.gap_seconds;
  out.expected_seconds -= earlier.expected_seconds;
  out.actual_seconds -= earlier.actual_seconds;
  return out;
}

}  // namespace dspark
