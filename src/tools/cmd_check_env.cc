// `dspark check-env`: what this machine, model and drafter are good for, and what will not work. Main thread.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/compute.h"
#include "tools/env_checks.h"
#include "tools/io.h"
#include "tools/trial.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::seconds kPatience{20};

std::string trial_text(const Trial& trial) {
  std::string out = "\nexpected tokens a second, all clients together, prompts not counted:\n";
  out += fmt::format("  {:>7} {:>8} {:>8} {:>7}\n", "clients", "plain", "DSpark", "gain");
  for (const ExpectedSpeed& each : trial.expected) {
    out +=
        fmt::format("  {:>7} {:>8.0f} {:>8.0f} {:>6.1f}%\n", each.clients, each.plain, each.dspark, 100 * each.gain());
  }
  std::string pays = fmt::format("it stops paying at {} clients", trial.stops_paying_at);
  if (trial.stops_paying_at == 0) {
    pays = fmt::format("it pays at up to {} clients", trial.expected.empty() ? 0 : trial.expected.back().clients);
    pays += trial.why_no_more.empty() ? ", the most that were tried" : "; " + trial.why_no_more;
  }
  out += fmt::format("\nDSpark here: {:+.0f} % for one client; {}\n", 100 * trial.one_client_gain(), pays);
  for (const std::string& reason : trial.reasons) out += fmt::format("  - {}\n", reason);
  return out;
}

ordered_json trial_json(const Trial& trial) {
  ordered_json out = {
      {"dspark_gain_one_client", trial.one_client_gain()},
      {"stops_paying_at", trial.stops_paying_at > 0 ? ordered_json(trial.stops_paying_at) : nullptr},
      {"why_no_more_clients", trial.why_no_more.empty() ? ordered_json() : ordered_json(trial.why_no_more)},
      {"reasons", trial.reasons},
      {"survival", trial.survival},
      {"draft_ms", trial.draft_ms},
      {"steps", ordered_json::array()},
      {"expected", ordered_json::array()}};
  for (const CostPoint& point : trial.steps) out["steps"].push_back({{"rows", point.rows}, {"ms", point.ms}});
  for (const ExpectedSpeed& each : trial.expected) {
    out["expected"].push_back({{"clients", each.clients},
                               {"plain_tokens_per_second", each.plain},
                               {"dspark_tokens_per_second", each.dspark},
                               {"gain", each.gain()}});
  }
  return out;
}

}  // namespace

Result<ExitCode> cmd_check_env(const Invocation& call) {
  std::vector<EnvCheck> checks = machine_checks(call.settings);
  for (EnvCheck& check : model_checks(call.settings)) checks.push_back(std::move(check));
  const auto failed = [&] { return std::ranges::count(checks, CheckState::kFailure, &EnvCheck::state) > 0; };
  std::optional<Trial> trial;
  if (!failed()) {
    const auto run = [&]() -> Result<Trial> {
      DSPARK_TRY(const auto engine, open_engine(call.settings));
      return run_trial(*engine, kPatience);
    };
    if (auto result = run(); result.ok()) {
      trial = std::move(*result);
    } else {
      checks.push_back({"trial", CheckState::kFailure, result.error().message, "see --verbose"});
    }
  }
  if (call.settings.get<"json">()) {
    ordered_json out = {{"ok", !failed()}, {"checks", ordered_json::array()}};
    for (const EnvCheck& check : checks) {
      out["checks"].push_back({{"name", check.name},
                               {"state", check_state_name(check.state)},
                               {"found", check.found},
                               {"advice", check.advice}});
    }
    out["trial"] = trial ? trial_json(*trial) : ordered_json();
    DSPARK_RETURN_IF_ERROR(write_json(out));
  } else {
    std::string out;
    for (const EnvCheck& check : checks) {
      out += fmt::format("{:<8} {:<17} {}\n", check_state_name(check.state), check.name, check.found);
      if (!check.advice.empty()) out += fmt::format("{:<8} {:<17} -> {}\n", "", "", check.advice);
    }
    if (trial) out += trial_text(*trial);
    DSPARK_RETURN_IF_ERROR(write_output(out));
  }
  return failed() ? ExitCode::kFailure : ExitCode::kOk;
}

}  // namespace dspark
