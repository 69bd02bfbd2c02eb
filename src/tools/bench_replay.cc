// See bench_replay.h.
#include "tools/bench_replay.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/compute.h"
#include "tools/io.h"
#include "tools/replay.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;

ordered_json numbers_of(const Replay& replay) {
  std::vector<const RequestTimes*> requests;
  requests.reserve(replay.times.size());
  for (const RequestTimes& request : replay.times) requests.push_back(&request);
  return {{"seconds", replay.seconds},
          {"tokens_per_second", static_cast<double>(replay.output_tokens) / replay.seconds},
          {"request_seconds", mean_whole(requests)},
          {"wait_seconds", mean_wait(requests)},
          {"ttft_p50", first_percentile(0.5)(requests)},
          {"ttft_p99", first_percentile(0.99)(requests)},
          {"itl_p50", gap_percentile(0.5)(requests)},
          {"itl_p99", gap_percentile(0.99)(requests)}};
}

std::string as_text(const ordered_json& report) {
  std::string out = fmt::format("{} requests of {:.1f} s of the log{}\n{:>8} {:>12} {:>12} {:>10} {:>10} {:>9} {:>9}\n",
                                report["requests"].get<size_t>(), report["log_seconds"].get<double>(),
                                report["with_text"].get<bool>() ? "" : ", prompts of the same lengths", "tokens/s",
                                "a request, s", "TTFT P50 ms", "P99", "ITL P50 ms", "P99", "all, s");
  for (const ordered_json& round : report["rounds"]) {
    const auto at = [&](const char* name) { return round[name].get<double>(); };
    out += fmt::format("{:>8.1f} {:>12.3f} {:>12.0f} {:>10.0f} {:>10.1f} {:>9.1f} {:>9.2f}\n", at("tokens_per_second"),
                       at("request_seconds"), 1e3 * at("ttft_p50"), 1e3 * at("ttft_p99"), 1e3 * at("itl_p50"),
                       1e3 * at("itl_p99"), at("seconds"));
  }
  return out;
}

}  // namespace

Result<ExitCode> bench_replay(const Settings& settings) {
  const std::string path = settings.get<"access-log">();
  if (path.empty()) return make_error(ErrorCode::kInvalidArgument, "no log to replay; name one with --access-log FILE");
  DSPARK_TRY(const LoggedTraffic traffic, read_traffic(path));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(settings));
  const auto prompts = traffic_prompts(*engine, traffic);
  ordered_json report = {{"requests", traffic.requests.size()},
                         {"log_seconds", traffic.seconds()},
                         {"with_text", traffic.with_text},
                         {"rounds", ordered_json::array()}};
  DSPARK_RETURN_IF_ERROR(replay(*engine, traffic, prompts));  // pages and cost model are cold
  for (int64_t round = 0; round < settings.get<"repeats">(); ++round) {
    DSPARK_TRY(const Replay played, replay(*engine, traffic, prompts));
    report["rounds"].push_back(numbers_of(played));
  }
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json(report) : write_output(as_text(report)));
  return ExitCode::kOk;
}

}  // namespace dspark
