// Measurements behind `dspark bench decode`, `dspark bench prefill` and `dspark bench requests`. One thread; not used
// while serving.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "engine/step_loop.h"

namespace dspark {

struct DecodeBench {
  int batch = 1;
  int prompt_tokens = 0;  // positions of each sequence before the measured steps
  int steps = 0;
  double tokens_per_second = 0.0;  // from the median step
  double step_ms = 0.0;            // median
  double step_ms_mean = 0.0, step_ms_min = 0.0, step_ms_max = 0.0;
  double bytes_per_step = 0.0;  // weights and KV that a step reads
  double bandwidth_bytes_per_second = 0.0;
  double bandwidth_fraction = 0.0;            // bytes_per_step / step / bandwidth: of one sequence's step only
  std::array<double, kPhases> phase_ms = {};  // mean
};
Result<DecodeBench> bench_decode(Runner& runner, int batch, int prompt_tokens, int steps);

struct PrefillBench {
  int tokens = 0;
  int chunk = 0;
  double tokens_per_second = 0.0;  // median of the repeats
  double seconds = 0.0, seconds_mean = 0.0;
  std::array<double, kPhases> phase_ms = {};
};
Result<PrefillBench> bench_prefill(Runner& runner, int tokens, int chunk, int repeats);

// A step of several rows of one sequence, as verification needs it.
struct RowsBench {
  int rows;
  double step_ms;                             // median
  std::array<double, kPhases> phase_ms = {};  // mean
};
struct RowsReport {
  std::vector<RowsBench> rows;
  double row_bound_ms;  // bytes that a step reads / bandwidth
};
Result<RowsReport> bench_rows(Runner& runner, std::span<const int> rows, int prompt_tokens, int repeats);

// Requests through the step loop, all at once: what serving adds to the bare steps.
struct RequestsBench {
  int requests = 0;
  int prompt_tokens = 0;
  int answer_tokens = 0;  // of each
  double seconds = 0.0;   // from the first submit to the last end
  double output_tokens_per_second = 0.0;
  LoopStats loop = {};  // of these requests only
  // Of the forward passes' time.
  double gap_share() const { return loop.gap_seconds / loop.forward_seconds; }
  double draw_share() const { return loop.draw_seconds / loop.forward_seconds; }
};
Result<RequestsBench> bench_requests(StepLoop& loop, int64_t vocab, int requests, int prompt_tokens, int answer_tokens);

}  // namespace dspark
