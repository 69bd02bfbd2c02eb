// What the step loop has done so far, for metrics and tests. Plain data; StepLoop::stats() gives a copy to any thread.
#pragma once

#include <cstdint>

#include "engine/speculation.h"

namespace dspark {

struct LoopStats {
  // Now.
  int running = 0;           // sequences: prompts on their way and choices
  int waiting = 0;           // sequences
  int requests_waiting = 0;  // that have not begun, those not yet seen by the loop included
  bool draining = false;

  // Since the start.
  int most_running = 0;  // sequences at once
  int64_t steps = 0;
  int64_t requests = 0;       // ended, in whatever way
  int64_t prompt_tokens = 0;  // computed or reused
  int64_t cached_tokens = 0;  // of those, reused
  int64_t output_tokens = 0;
  int64_t decode_rows = 0, prompt_rows = 0;  // computed
  int64_t drafted = 0, accepted = 0;
  int64_t preemptions = 0;
  SpeculationStats speculation;

  // Seconds of all steps by phase; they add up to the time that the loop was not idle.
  double plan_seconds = 0.0;     // taking in requests, the plan, KV blocks
  double forward_seconds = 0.0;  // the model
  double draw_seconds = 0.0;     // tokens and log-probabilities, on the workers
  double deliver_seconds = 0.0;  // text, stops, listeners, KV bookkeeping
  // From the end of a forward pass to the start of the next, drawing and idle time not counted: what no core of the
  // model's work was done in. gap_seconds / forward_seconds is what scheduling costs.
  double gap_seconds = 0.0;

  // Plans against what happened, over the steps whose time was foreseen.
  double expected_seconds = 0.0, actual_seconds = 0.0;

  // What was counted since `earlier`; what is now stays.
  LoopStats operator-(const LoopStats& earlier) const;
};

}  // namespace dspark
