// DecisionLog: a line of JSON for each step and decoding sequence, with what was guessed, checked and accepted
// (--log-dflash-details). The step thread.
#pragma once

#include <fstream>
#include <memory>
#include <string>

#include "base/result.h"
#include "engine/speculation.h"

namespace dspark {

// A step's part that all of its lines share.
struct StepRecord {
  int64_t step = 0;
  double expected_ms = 0.0;  // 0: nothing was known yet
  double actual_ms = 0.0;
};

class DecisionLog {
 public:
  // Appends to the file. kNotFound if it cannot be opened.
  static Result<std::shared_ptr<DecisionLog>> open(const std::string& path);

  // A write that fails ends the log with a warning, and nothing else.
  void write(const StepRecord& step, uint64_t request, int choice, const Proposal& proposal, int accepted);

 private:
  std::string path_;
  std::ofstream file_;
};

}  // namespace dspark
