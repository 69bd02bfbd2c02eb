// `dspark bench`: measurements of the machine and of what dspark reaches on it. Main thread and the pool's workers.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "engine/bench.h"
#include "kernels/kernel_bench.h"
#include "tools/bench_replay.h"
#include "tools/bench_speculation.h"
#include "tools/bench_sweep.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/io.h"
#include "tools/progress.h"

namespace dspark {
namespace {

constexpr int64_t kDefaultPrompt = 512;  // tokens, of prefill
constexpr int64_t kDefaultRequestPrompt = 64;
constexpr int64_t kBandwidthBytes = int64_t{256} << 20;  // more than any cache, so that memory is measured

Result<ExitCode> bench_kernels(const Settings& settings) {
  DSPARK_TRY(const Isa isa, chosen_isa(settings));
  ThreadPool pool(pool_options(settings));
  Progress progress("kernels", ProgressUnit::kSteps, 0);
  const auto [peak, rates] = measure_kernels(pool, isa, [&](int done, int total) { progress.update(done, total); });
  const auto share = [&peaks = peak](const KernelRate& rate) {
    const double top = peaks.of(rate.type);
    return top > 0.0 ? rate.gmacs / top : 0.0;
  };
  BandwidthMeter memory(pool, kBandwidthBytes);
  memory.sample();
  const double bandwidth = memory.best() * 1e-9;
  const std::vector<OrderPrice> prices = measure_order_price();

  if (settings.get<"json">()) {
    nlohmann::ordered_json json = {
        {"isa", isa_name(isa)},
        {"threads", pool.size()},
        {"peak_gmacs", {{"narrow", peak.narrow_gmacs}, {"wide", peak.wide_gmacs}, {"float", peak.float_gmacs}}},
        {"bandwidth_gb_per_s", bandwidth}};
    for (const KernelRate& rate : rates) {
      json["kernels"].push_back({{"type", dtype_info(rate.type).name},
                                 {"gmacs", rate.gmacs},
                                 {"packed_gmacs", rate.packed_gmacs},
                                 {"row_gmacs", rate.row_gmacs},
                                 {"row_gb_per_s", rate.row_gb},
                                 {"peak_share", share(rate)}});
    }
    for (const OrderPrice& price : prices) {
      json["determinism"].push_back({{"kernel", price.kernel},
                                     {"ordered_ns", price.ordered_ns},
                                     {"free_ns", price.free_ns},
                                     {"price", price.price()}});
    }
    DSPARK_RETURN_IF_ERROR(write_json(json));
    return ExitCode::kOk;
  }
  std::string out = fmt::format(
      "{}, {} threads; peak in registers: {:.0f} GMAC/s narrow, {:.0f} wide, {:.0f} float; memory {:.1f} GB/s\n\n"
      "{:<8} {:>10} {:>14} {:>12} {:>10} {:>8}\n",
      isa_name(isa), pool.size(), peak.narrow_gmacs, peak.wide_gmacs, peak.float_gmacs, bandwidth, "type", "GMAC/s",
      "still packed", "of peak", "one row", "GB/s");
  for (const KernelRate& rate : rates) {
    out += fmt::format("{:<8} {:>10.1f} {:>14.1f} {:>11.0f}% {:>10.1f} {:>8.1f}\n", dtype_info(rate.type).name,
                       rate.gmacs, rate.packed_gmacs, 100 * share(rate), rate.row_gmacs, rate.row_gb);
  }
  if (!prices.empty()) out += "\nprice of the fixed order of sums, one AVX2 thread, data in cache:\n";
  for (const OrderPrice& price : prices) {
    out += fmt::format("{:<14} {:>8.0f} ns {:>8.0f} ns in any order {:>+6.0f}%\n", price.kernel, price.ordered_ns,
                       price.free_ns, 100 * price.price());
  }
  DSPARK_RETURN_IF_ERROR(write_output(out));
  return ExitCode::kOk;
}

nlohmann::ordered_json phases_json(const std::array<double, kPhases>& phase_ms) {
  nlohmann::ordered_json json;
  for (int i = 0; i < kPhases; ++i) json[phase_name(static_cast<Phase>(i))] = phase_ms[static_cast<size_t>(i)];
  return json;
}

std::string phases_text(const std::array<double, kPhases>& phase_ms) {
  std::string out = "phases, ms:";
  for (int i = 0; i < kPhases; ++i) {
    out += fmt::format(" {} {:.2f}", phase_name(static_cast<Phase>(i)), phase_ms[static_cast<size_t>(i)]);
  }
  return out + '\n';
}

// What every report of a model says first.
nlohmann::ordered_json header_json(const Settings& settings, Runner& runner) {
  return {{"model", settings.get<"model">()},
          {"threads", runner.pool().size()},
          {"isa", isa_name(runner.isa())},
          {"kv_type", dtype_info(runner.kv_type()).name}};
}

Result<ExitCode> bench_row_counts(const Settings& settings, Runner& runner) {
  const std::vector<int64_t>& wanted = settings.get<"rows">();
  const std::vector<int> rows(wanted.begin(), wanted.end());
  DSPARK_TRY(const RowsReport report, bench_rows(runner, rows, static_cast<int>(settings.get<"prompt-len">()),
                                                 static_cast<int>(settings.get<"repeats">())));
  nlohmann::ordered_json json = header_json(settings, runner);
  std::string text = fmt::format("bound of one row: {:.3f} ms\n{:>6} {:>10} {:>12}\n", report.row_bound_ms, "rows",
                                 "step, ms", "x the bound");
  json["row_bound_ms"] = report.row_bound_ms;
  json["prompt_len"] = settings.get<"prompt-len">();
  for (const RowsBench& entry : report.rows) {
    json["rows"].push_back({{"rows", entry.rows}, {"step_ms", entry.step_ms}, {"phases", phases_json(entry.phase_ms)}});
    text += fmt::format("{:>6} {:>10.3f} {:>12.2f}\n", entry.rows, entry.step_ms, entry.step_ms / report.row_bound_ms);
  }
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json(json) : write_output(text));
  return ExitCode::kOk;
}

Result<ExitCode> bench_decode_command(const Settings& settings) {
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(settings));
  Runner& runner = engine->runner();
  if (!settings.get<"rows">().empty()) return bench_row_counts(settings, runner);
  DSPARK_TRY(const DecodeBench report,
             bench_decode(runner, static_cast<int>(settings.get<"batch">()),
                          static_cast<int>(settings.get<"prompt-len">()), static_cast<int>(settings.get<"steps">())));
  if (!settings.get<"json">()) {
    DSPARK_RETURN_IF_ERROR(write_output(fmt::format(
        "{} sequences behind {} tokens, {} steps: {:.1f} tokens/s; a step takes {:.3f} ms ({:.3f} to {:.3f}) and reads "
        "{:.1f} MB: {:.0f}% of the {:.1f} GB/s of this memory\n{}",
        report.batch, report.prompt_tokens, report.steps, report.tokens_per_second, report.step_ms, report.step_ms_min,
        report.step_ms_max, report.bytes_per_step / 1e6, 100 * report.bandwidth_fraction,
        report.bandwidth_bytes_per_second / 1e9, phases_text(report.phase_ms))));
    return ExitCode::kOk;
  }
  nlohmann::ordered_json json = header_json(settings, runner);
  json.update({{"batch", report.batch},
               {"prompt_len", report.prompt_tokens},
               {"steps", report.steps},
               {"tokens_per_second", report.tokens_per_second},
               {"step_ms", report.step_ms},
               {"step_ms_mean", report.step_ms_mean},
               {"step_ms_min", report.step_ms_min},
               {"step_ms_max", report.step_ms_max},
               {"bytes_per_step", report.bytes_per_step},
               {"bandwidth_gb_per_s", report.bandwidth_bytes_per_second / 1e9},
               {"bandwidth_fraction", report.bandwidth_fraction},
               {"phases", phases_json(report.phase_ms)}});
  DSPARK_RETURN_IF_ERROR(write_json(json));
  return ExitCode::kOk;
}

Result<ExitCode> bench_prefill_command(const Settings& settings) {
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(settings));
  Runner& runner = engine->runner();
  const int64_t tokens = settings.get<"prompt-len">() == 0 ? kDefaultPrompt : settings.get<"prompt-len">();
  DSPARK_TRY(const PrefillBench report,
             bench_prefill(runner, static_cast<int>(tokens), static_cast<int>(settings.get<"chunk">()),
                           static_cast<int>(settings.get<"repeats">())));
  if (!settings.get<"json">()) {
    DSPARK_RETURN_IF_ERROR(write_output(fmt::format("{} tokens in chunks of {}: {:.1f} tokens/s, {:.3f} s\n{}",
                                                    report.tokens, report.chunk, report.tokens_per_second,
                                                    report.seconds, phases_text(report.phase_ms))));
    return ExitCode::kOk;
  }
  nlohmann::ordered_json json = header_json(settings, runner);
  json.update({{"prompt_len", report.tokens},
               {"chunk", report.chunk},
               {"tokens_per_second", report.tokens_per_second},
               {"seconds", report.seconds},
               {"seconds_mean", report.seconds_mean},
               {"phases", phases_json(report.phase_ms)}});
  DSPARK_RETURN_IF_ERROR(write_json(json));
  return ExitCode::kOk;
}

Result<ExitCode> bench_requests_command(const Settings& settings) {
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(settings));
  Runner& runner = engine->runner();
  const int64_t prompt = settings.get<"prompt-len">() == 0 ? kDefaultRequestPrompt : settings.get<"prompt-len">();
  DSPARK_TRY(const RequestsBench report,
             bench_requests(engine->loop(), engine->config().vocab, static_cast<int>(settings.get<"batch">()),
                            static_cast<int>(prompt), static_cast<int>(settings.get<"steps">())));
  const LoopStats& loop = report.loop;
  const double steps = static_cast<double>(std::max<int64_t>(1, loop.steps));
  if (!settings.get<"json">()) {
    DSPARK_RETURN_IF_ERROR(write_output(fmt::format(
        "{} requests at once, prompts of {}, answers of {}: {:.1f} tokens/s, {:.2f} s; {} steps, preemptions {}\n"
        "a step, ms: forward {:.3f} draw {:.3f} plan {:.3f} deliver {:.3f}; gap {:.3f}, {:.2f}% of forward; planned "
        "for "
        "{:.2f}x of what steps took\n",
        report.requests, report.prompt_tokens, report.answer_tokens, report.output_tokens_per_second, report.seconds,
        loop.steps, loop.preemptions, 1e3 * loop.forward_seconds / steps, 1e3 * loop.draw_seconds / steps,
        1e3 * loop.plan_seconds / steps, 1e3 * loop.deliver_seconds / steps, 1e3 * loop.gap_seconds / steps,
        100 * report.gap_share(), loop.expected_seconds / std::max(1e-9, loop.actual_seconds))));
    return ExitCode::kOk;
  }
  nlohmann::ordered_json json = header_json(settings, runner);
  json.update({{"requests", report.requests},
               {"prompt_len", report.prompt_tokens},
               {"answer_len", report.answer_tokens},
               {"tokens_per_second", report.output_tokens_per_second},
               {"seconds", report.seconds},
               {"steps", loop.steps},
               {"preemptions", loop.preemptions},
               {"forward_seconds", loop.forward_seconds},
               {"draw_seconds", loop.draw_seconds},
               {"plan_seconds", loop.plan_seconds},
               {"deliver_seconds", loop.deliver_seconds},
               {"gap_seconds", loop.gap_seconds},
               {"gap_share", report.gap_share()},
               {"draw_share", report.draw_share()},
               {"expected_seconds", loop.expected_seconds},
               {"actual_seconds", loop.actual_seconds}});
  DSPARK_RETURN_IF_ERROR(write_json(json));
  return ExitCode::kOk;
}

}  // namespace

Result<ExitCode> cmd_bench(const Invocation& call) {
  const std::string& what = call.operands[0];
  if (what == "decode") return bench_decode_command(call.settings);
  if (what == "prefill") return bench_prefill_command(call.settings);
  if (what == "requests") return bench_requests_command(call.settings);
  if (what == "speculation") return bench_speculation(call.settings);
  if (what == "sweep") return bench_sweep(call.settings);
  if (what == "replay") return bench_replay(call.settings);
  if (what == "kernels") return bench_kernels(call.settings);
  return make_error(ErrorCode::kInvalidArgument,
                    "{} cannot be measured; known: decode, prefill, requests, speculation, sweep, replay, kernels",
                    quote(what));
}

}  // namespace dspark
