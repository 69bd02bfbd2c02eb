// Pieces that the step*.cc files share. Not for other files.
#pragma once

#include <algorithm>
#include <chrono>

#include "model/step.h"

namespace dspark {

// Adds the time of a scope to its phase while the step is timed.
class Step::PhaseClock {
 public:
  PhaseClock(Step& step, Phase phase) : step_(step), phase_(phase) {
    if (step_.timed_) start_ = std::chrono::steady_clock::now();
  }
  ~PhaseClock() {
    if (!step_.timed_) return;
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    step_.phase_seconds_[static_cast<size_t>(phase_)] += spent.count();
  }
  PhaseClock(const PhaseClock&) = delete;
  PhaseClock& operator=(const PhaseClock&) = delete;

 private:
  Step& step_;
  Phase phase_;
  std::chrono::steady_clock::time_point start_;
};

// So few rows' worth of element-wise work that waking a worker for it costs more.
inline constexpr int kRowsPerTask = 4;

template <class Fn>
void Step::for_each_row(int rows, Fn fn) {
  pool_.run((rows + kRowsPerTask - 1) / kRowsPerTask, [&](int task) {
    const int end = std::min(rows, (task + 1) * kRowsPerTask);
    for (int row = task * kRowsPerTask; row < end; ++row) fn(row);
  });
}

// Rows whose k is no multiple of 32 only meet float weights.
inline void quantise_row(const Ops& ops, const MatmulKernels& kernels, const float* x, int64_t k, int row,
                         Activations* out) {
  if (k % kPiece == 0) ops.quantise(x, k, out->row(row), kernels.wants_wide ? out->wide_row(row) : nullptr);
}

inline MatmulInput input_of(int rows, const Activations& quantised, const float* floats, int64_t k) {
  return {.rows = rows, .quantised = &quantised, .floats = floats, .stride = k};
}

}  // namespace dspark
