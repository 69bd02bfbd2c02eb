// Progress of long work on standard error: one line that is rewritten on a terminal, nothing anywhere else.
// One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/report.h"
#include "tools/interrupt.h"

namespace dspark {

enum class ProgressUnit { kBytes, kTokens, kSteps };

// "  12.4 MiB of 98.1 MiB  13%  5.2 MiB/s  16 s left"; what is not known (a total of 0) is left out. Pure.
std::string progress_line(ProgressUnit unit, int64_t done, int64_t total, double elapsed_s);

class Progress {
 public:
  // `total` in units; 0 if it is not known. Shows nothing in the first half second.
  Progress(std::string label, ProgressUnit unit, int64_t total);
  ~Progress();  // clears the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Redraws at most ten times a second.
  void update(int64_t done);
  void update(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string label_;
  const ProgressUnit unit_;
  int64_t total_;
  const bool terminal_;
  const Clock::time_point start_;
  Clock::time_point next_draw_;
  bool drawn_ = false;
};

// Progress in bytes for a callee of base/report.h: a line for each thing it does, and Ctrl-C cancels it. `interrupt`
// must outlive the function.
ReportProgress show_progress(const InterruptScope& interrupt);

}  // namespace dspark
