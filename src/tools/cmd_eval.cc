// `dspark eval`: how good a drafter is, on prompts. Main thread; the engine's workers compute.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cache_dir.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/progress.h"
#include "tools/prompt_set.h"
#include "tools/reliability_plot.h"
#include "tools/watched_engine.h"
#include "train/draft_eval.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;

constexpr int kUsualBlock = 7;

ordered_json position_json(const PositionQuality& position, size_t place) {
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  double foretold = 0.0, came = 0.0;
  for (const ChanceOutcome& outcome : position.survival) {
    foretold += outcome.chance;
    came += outcome.happened ? 1.0 : 0.0;
  }
  const double drafts = std::max(1.0, static_cast<double>(position.survival.size()));
  const double area = area_under_curve(position.survival);
  ordered_json json = {{"position", place + 1},
                       {"reached", position.reached},
                       {"accepted", position.accepted},
                       {"acceptance", share(position.accepted, position.reached)},
                       {"survival_expected", foretold / drafts},
                       {"survival_actual", came / drafts},
                       {"calibration_error", expected_calibration_error(position.survival)},
                       {"auc", std::isnan(area) ? ordered_json() : ordered_json(area)}};
  if (position.ratio_count > 0) {
    json["ratio_acceptance"] = position.ratio_sum / static_cast<double>(position.ratio_count);
  }
  return json;
}

ordered_json quality_json(const DraftQuality& quality) {
  ordered_json json = {{"prompts", quality.prompts},         {"drafts", quality.drafts},
                       {"tokens", quality.pace.tokens},      {"steps", quality.pace.steps},
                       {"tau", quality.pace.tau()},          {"fresh_tokens", quality.fresh.tokens},
                       {"fresh_steps", quality.fresh.steps}, {"tau_fresh", quality.fresh.tau()}};
  json["positions"] = ordered_json::array();
  for (size_t k = 0; k < quality.positions.size(); ++k) {
    json["positions"].push_back(position_json(quality.positions[k], k));
  }
  return json;
}

std::string quality_text(const std::string& name, const std::string& bucket, const DraftQuality& quality) {
  std::string out = fmt::format("{:<14} {:<6} {:>7} {:>8} {:>6.2f} {:>6.2f}  ", name, bucket, quality.prompts,
                                quality.pace.tokens, quality.pace.tau(), quality.fresh.tau());
  for (const PositionQuality& position : quality.positions) {
    out += fmt::format(" {:>3.0f}%", position.reached == 0 ? 0.0
                                                           : 100.0 * static_cast<double>(position.accepted) /
                                                                 static_cast<double>(position.reached));
  }
  std::vector<ChanceOutcome> all;
  for (const PositionQuality& position : quality.positions) {
    all.insert(all.end(), position.survival.begin(), position.survival.end());
  }
  return out + fmt::format("   {:>4.1f}%\n", 100.0 * expected_calibration_error(all));
}

}  // namespace

Result<ExitCode> cmd_eval(const Invocation& call) {
  const Settings& settings = call.settings;
  const std::vector<std::string>& files = settings.get<"prompts">();
  if (files.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no prompts to evaluate on; name a file with --prompts FILE");
  }
  std::vector<std::shared_ptr<WatchedDrafter>> watched;
  DSPARK_TRY(const EngineOptions asked, watched_engine(settings, kUsualBlock, &watched));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(asked));
  std::vector<PromptSet> sets;
  int64_t prompts = 0;
  for (const std::string& file : files) {
    DSPARK_TRY(PromptSet set, load_prompt_set(*engine, file, settings.get<"limit">()));
    prompts += static_cast<int64_t>(set.prompts.size());
    sets.push_back(std::move(set));
  }
  EvalOptions options;
  options.sampling.temperature = settings.get<"temp">();
  options.sampling.seed = static_cast<uint64_t>(settings.get<"seed">());
  options.max_tokens = static_cast<int>(settings.is_set<"max-tokens">() ? settings.get<"max-tokens">() : 256);
  options.slots = static_cast<int>(settings.get<"slots">());
  const InterruptScope interrupt;
  Progress progress("answers", ProgressUnit::kSteps, prompts);
  DraftQuality whole;
  ordered_json report = {{"temperature", options.sampling.temperature}, {"max_tokens", options.max_tokens}};
  std::string text =
      "set            bucket prompts   tokens    tau  fresh   accepted, by place       error of survival\n";
  for (const PromptSet& set : sets) {
    DSPARK_TRY(const DraftQuality quality, evaluate_drafts(*engine, watched, set.prompts, options, [&](int64_t done) {
                 progress.update(whole.prompts + done);
                 return !interrupt.requested();
               }));
    ordered_json entry = {{"name", set.name}, {"bucket", set.bucket}};
    entry.update(quality_json(quality));
    report["sets"].push_back(std::move(entry));
    text += quality_text(set.name, set.bucket, quality);
    whole.add(quality);
  }
  report["all"] = quality_json(whole);
  const LoopStats stats = engine->loop().stats();
  report["draft_ms_per_step"] =
      1e3 * stats.speculation.draft_seconds / std::max<double>(1, static_cast<double>(stats.steps));
  report["forward_ms_per_step"] = 1e3 * stats.forward_seconds / std::max<double>(1, static_cast<double>(stats.steps));
  if (sets.size() > 1) text += quality_text("all", "", whole);
  if (settings.is_set<"plot">()) {
    DSPARK_RETURN_IF_ERROR(replace_file(settings.get<"plot">(), reliability_svg(whole, "all prompts")));
  }
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json(report) : write_output(text));
  return ExitCode::kOk;
}

}  // namespace dspark
