// What this machine has for the work, check by check, for `dspark check-env`. Reads the system and measures memory for
// a moment; main thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
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

// Bytes that a model takes, and those that there are.
struct Room {
  int64_t weights = 0;
  int64_t kv = 0;         // at most
  int64_t block = 1;      // of KV
  int64_t memory = 0;     // of the machine, or what limits allow
  int64_t available = 0;  // now; -1: not known
};
// `why`: the KV memory is what it is. A failure where weights and the least of a useful cache do not fit.
EnvCheck check_room(const Room& room, const std::string& why);

// CPU, instruction sets, cores, load, memory, bandwidth, huge pages and limits.
std::vector<EnvCheck> machine_checks(const Settings& settings);

// Model and drafter, before anything is loaded: whether they are there, fit this build, this machine and each other.
std::vector<EnvCheck> model_checks(const Settings& settings);

}  // namespace dspark
