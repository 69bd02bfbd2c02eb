// `dspark top`: a running server at a glance, again and again. Main thread.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "tools/command.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/server_client.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;

// One look: the sum of each metric over its labels, and what /health says.
struct Look {
  Clock::time_point at;
  std::map<std::string, double, std::less<>> sums = {};
  std::map<std::string, double, std::less<>> phases = {};  // dspark_step_seconds_sum by phase
  nlohmann::json health = {};

  double get(std::string_view name) const {
    const auto found = sums.find(name);
    return found == sums.end() ? 0.0 : found->second;
  }
};

void read_metrics(std::string_view text, Look* look) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == std::string_view::npos) continue;
    double value = 0.0;
    std::from_chars(line.data() + space + 1, line.data() + line.size(), value);
    const std::string_view name = line.substr(0, line.find_first_of("{ "));
    look->sums[std::string(name)] += value;
    const size_t phase = line.find("phase=\"");
    if (name != "dspark_step_seconds_sum" || phase == std::string_view::npos) continue;
    const size_t begin = phase + 7;
    look->phases[std::string(line.substr(begin, line.find('"', begin) - begin))] = value;
  }
}

Result<Look> look_at(const ServerClient& server) {
  Look look = {.at = Clock::now()};
  DSPARK_TRY(const std::string metrics, server.get_text("/metrics"));
  read_metrics(metrics, &look);
  if (auto health = server.get("/health"); health.ok()) {
    look.health = *health;
  } else {
    look.health = {{"status", health.error().message}};
  }
  return look;
}

std::string page(const std::string& url, const Look& now, const Look& before) {
  const auto since = [&](std::string_view name) { return now.get(name) - before.get(name); };
  const auto ratio = [&](std::string_view part, std::string_view whole, double times) {
    return since(whole) > 0 ? fmt::format("{:.1f}", times * since(part) / since(whole)) : std::string("-");
  };
  const double seconds = std::chrono::duration<double>(now.at - before.at).count();
  const auto rate = [&](std::string_view name) {
    return seconds > 0 ? fmt::format("{:.1f}", since(name) / seconds) : std::string("-");
  };
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("{:<12} {}\n", name, value);
  };
  line("server", fmt::format("{}, {}", url, printable(now.health.value("status", "unknown"), 200)));
  line("requests", fmt::format("{:.0f} run, {:.0f} wait; {} a second end", now.get("vllm:num_requests_running"),
                               now.get("vllm:num_requests_waiting"), rate("dspark_requests_total")));
  line("speed", fmt::format("{} answer tokens a second, {} for each user; {} prompt tokens a second",
                            rate("dspark_output_tokens_total"),
                            ratio("vllm:inter_token_latency_seconds_count", "vllm:inter_token_latency_seconds_sum", 1),
                            rate("vllm:prefix_cache_queries_total")));
  line("first token", fmt::format("{} ms on average", ratio("vllm:time_to_first_token_seconds_sum",
                                                            "vllm:time_to_first_token_seconds_count", 1e3)));
  line("guesses",
       fmt::format("{} % of {} checked a second were right",
                   ratio("vllm:spec_decode_num_accepted_tokens_total", "vllm:spec_decode_num_draft_tokens_total", 100),
                   rate("vllm:spec_decode_num_draft_tokens_total")));
  std::string phases;
  for (const auto& [phase, value] : now.phases) {
    const auto old = before.phases.find(phase);
    const double spent = value - (old == before.phases.end() ? 0.0 : old->second);
    if (since("dspark_steps_total") > 0) {
      phases +=
          fmt::format("{}{} {:.2f}", phases.empty() ? "" : ", ", phase, 1e3 * spent / since("dspark_steps_total"));
    }
  }
  line("steps", fmt::format("{} a second; ms each: {}", rate("dspark_steps_total"), phases.empty() ? "-" : phases));
  line("cache",
       fmt::format("{:.1f} % in use, {:.1f} % fragmented; {} % of prompt tokens reused",
                   100 * now.get("vllm:kv_cache_usage_perc"), 100 * now.get("dspark_cache_fragmentation_ratio"),
                   ratio("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total", 100)));
  for (const auto& each : now.health.value("degraded", nlohmann::json::array())) {
    line("degraded",
         fmt::format("{}: {}", printable(each.value("mode", "")), printable(each.value("detail", ""), 200)));
  }
  return out;
}

// Waits; true if somebody wants to leave.
bool wait_for(std::chrono::milliseconds time, const InterruptScope& interrupt) {
  pollfd wait{interrupt.wake_fd(), POLLIN, 0};
  poll(&wait, 1, static_cast<int>(time.count()));
  return interrupt.requested();
}

}  // namespace

Result<ExitCode> cmd_top(const Invocation& call) {
  DSPARK_TRY(const ServerClient server,
             ServerClient::create(call.settings, call.operands.empty() ? "" : call.operands[0]));
  const auto refresh = call.settings.get<"refresh">();
  const int64_t looks = call.settings.get<"looks">();
  const InterruptScope interrupt(true);
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  DSPARK_TRY(Look before, look_at(server));
  for (int64_t i = 0; looks == 0 || i < looks; ++i) {
    if (wait_for(refresh, interrupt)) break;
    DSPARK_TRY(Look now, look_at(server));
    // On a terminal in place, from its top; anywhere else one page behind the other.
    DSPARK_RETURN_IF_ERROR(
        write_output((terminal ? "\x1b[H\x1b[2J" : "") + page(server.url(), now, before) + (terminal ? "" : "\n")));
    before = std::move(now);
  }
  return ExitCode::kOk;
}

}  // namespace dspark
