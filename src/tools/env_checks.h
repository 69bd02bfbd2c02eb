// What this machine has for the work, check by check, for `dspark check-env`. Reads the system and measures memory for
// a moment; main thread.
#pragma once

#include <string>
#include <vector>

#include "base/settings.h"

namespace dspark {

enum class CheckState { kOk, kWarning, kFailure };
std::string_view check_state_name(CheckState state);  // "ok", "warning", "failure"

struct EnvCheck {
  std::string name;
  CheckState state = CheckState::kOk;
  std::string found;
  std::string advice = {};  // what to do; empty where all is well
};

// CPU, instruction sets, cores, load, memory, bandwidth, huge pages and limits.
std::vector<EnvCheck> machine_checks(const Settings& settings);

// Model and drafter, before anything is loaded: whether they are there, fit this build, this machine and each other.
std::vector<EnvCheck> model_checks(const Settings& settings);

}  // namespace dspark
