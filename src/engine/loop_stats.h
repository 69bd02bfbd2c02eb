// What the step loop has done so far, for metrics and tests. Plain data; StepLoop::stats() gives a copy to any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/speculation.h"

namespace dspark {

// The parts of a step, as metrics name them.
enum class StepPhase { kPlan, kDraft, kForward, kDraw, kDeliver };
inline constexpr std::array<std::string_view, 5> kStepPhaseNames = {"plan", "draft", "forward", "draw", "deliver"};

// How many steps took at most so many seconds; the last place counts the others.
inline constexpr std::array<double, 14> kStepBounds = {0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01,
                                                       0.02,   0.05,   0.1,    0.2,   0.5,   1.0,   5.0};
struct StepTimes {
  std::array<int64_t, kStepBounds.size() + 1> steps = {};
  double seconds = 0.0;
  void add(double step_seconds);
};

// Compactions of the KV cache, and its fragmentation around the newest one.
struct DefragStats {
  int64_t runs = 0;
  int64_t moved = 0;  // blocks
  double before = 0.0, after = 0.0;
};

struct LoopStats {
  // Now.
  int running = 0;           // sequences: prompts on their way and choices
  int waiting = 0;           // sequences
  int requests_waiting = 0;  // that have not begun, those not yet seen by the loop included
  bool draining = false;
  double step_seconds = 0.0;           // that the step which runs has taken so far; 0: none runs
  double step_foreseen_seconds = 0.0;  // that it should take; 0: not known
  int prompt_limit = 0;                // rows that the newest plan had for prompts

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
  DefragStats defrag;

  // Seconds of all steps by phase; they add up to the time that the loop was not idle.
  double plan_seconds = 0.0;     // taking in requests, the plan, KV blocks
  double forward_seconds = 0.0;  // the model
  double draw_seconds = 0.0;     // tokens and log-probabilities, on the workers
  double deliver_seconds = 0.0;  // text, stops, listeners, KV bookkeeping
  // From the end of a forward pass to the start of the next, without drawing, a drafter's computation and idle time: in
  // which no core computed. gap_seconds / forward_seconds is what scheduling costs.
  double gap_seconds = 0.0;

  std::array<StepTimes, kStepPhaseNames.size()> phases;  // by StepPhase

  // Plans against what happened, over the steps whose time was foreseen.
  double expected_seconds = 0.0, actual_seconds = 0.0;

  // What was counted since `earlier`; what is now stays.
  LoopStats operator-(const LoopStats& earlier) const;
};

}  // namespace dspark
