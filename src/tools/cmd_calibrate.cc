// `dspark calibrate`: fits a drafter's confidences to what the target takes (DSpark paper, section 3.2.1) and leaves
// the temperatures beside the drafter. Main thread; the engine's workers compute.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/cpu.h"
#include "draft/calibration.h"
#include "model/model_digest.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/progress.h"
#include "tools/prompt_set.h"
#include "tools/watched_engine.h"
#include "train/draft_eval.h"

namespace dspark {
namespace {

using nlohmann::ordered_json;

constexpr size_t kLeastDrafts = 200;  // on either side: with fewer, an error of 2 % is noise
constexpr int kUsualTokens = 256;

// The drafter whose confidences are calibrated, and what it has now.
struct Subject {
  std::string path;
  Sha256Digest digest;
  int positions = 0;
  Calibration before;
};

Result<Subject> find_subject(EngineOptions* options) {
  if (options->drafter.with != DraftWith::kDspark) {
    return make_error(ErrorCode::kInvalidArgument, "only the trained drafter has confidences; leave --draft-with out");
  }
  const int threads = options->runner.threads == 0 ? usable_cores() : options->runner.threads;
  const std::string& folder = options->runner.digest_folder;
  DSPARK_TRY(const ModelFile model, ModelFile::open(options->model));
  DSPARK_TRY(options->runner.digest, model_digest(model.tensors(), {.folder = folder}, threads, {}));
  DSPARK_TRY(const DrafterFile file, require_drafter(options->drafter, *options->runner.digest, folder, threads));
  Subject subject = {
      .path = file.file.tensors().path(), .digest = file.digest, .positions = file.config.max_tokens(), .before = {}};
  if (!file.config.confidence) {
    return make_error(ErrorCode::kUnsupported,
                      "{}: this drafter has no confidence head, so there is nothing to calibrate; its survival is "
                      "learnt while it serves",
                      subject.path);
  }
  DSPARK_TRY(subject.before, read_calibration(subject.path, subject.digest));
  options->drafter.file = subject.path;
  return subject;
}

using Prompts = std::vector<std::vector<int32_t>>;

// Every second prompt of each file is fitted to, the others are held out.
struct Halves {
  Prompts fitted, held_out;
};
Result<Halves> load_halves(const Engine& engine, const Settings& settings) {
  Halves out;
  for (const std::string& file : settings.get<"prompts">()) {
    DSPARK_TRY(const PromptSet set, load_prompt_set(engine, file, settings.get<"limit">()));
    for (const auto& prompt : set.prompts) {
      (out.fitted.size() <= out.held_out.size() ? out.fitted : out.held_out).push_back(prompt);
    }
  }
  return out;
}

Status expect_enough(const DraftQuality& quality, const char* half) {
  if (quality.confidences.size() >= kLeastDrafts) return Ok{};
  return make_error(ErrorCode::kInvalidArgument,
                    "{} drafts of the {} prompts that are {}, at least {} are needed; give more prompts, or raise "
                    "--max-tokens",
                    quality.confidences.size(), quality.prompts, half, kLeastDrafts);
}

// How good a calibration is at one place of the drafts, and at all of them weighed by their drafts.
struct Quality {
  double error = 0.0, area = 0.0;
  size_t drafts = 0;
};
Quality quality_at(std::span<const ConfidenceRecord> records, const Calibration& calibration, int position) {
  const auto outcomes = survival_outcomes(records, calibration, position);
  return {expected_calibration_error(outcomes), area_under_curve(outcomes), outcomes.size()};
}
double mean_error(std::span<const ConfidenceRecord> records, const Calibration& calibration, int positions) {
  double error = 0.0, drafts = 0.0;
  for (int position = 0; position < positions; ++position) {
    const Quality quality = quality_at(records, calibration, position);
    error += quality.error * static_cast<double>(quality.drafts);
    drafts += static_cast<double>(quality.drafts);
  }
  return drafts == 0.0 ? 0.0 : error / drafts;
}

ordered_json finite_or_null(double value) { return std::isfinite(value) ? ordered_json(value) : ordered_json(); }

ordered_json positions_json(std::span<const ConfidenceRecord> records, const Subject& subject,
                            const Calibration& after) {
  ordered_json out = ordered_json::array();
  for (int position = 0; position < subject.positions; ++position) {
    const Quality was = quality_at(records, subject.before, position), is = quality_at(records, after, position);
    if (is.drafts == 0) break;
    out.push_back({{"position", position + 1},
                   {"drafts", is.drafts},
                   {"temperature_before", subject.before.temperature(position)},
                   {"temperature", after.temperature(position)},
                   {"calibration_error_before", was.error},
                   {"calibration_error", is.error},
                   {"auc_before", finite_or_null(was.area)},
                   {"auc", finite_or_null(is.area)}});
  }
  return out;
}

std::string as_text(const ordered_json& report) {
  const auto number = [](const ordered_json& value, double factor, const char* unit) {
    return value.is_null() ? std::string("-") : fmt::format("{:.3g}{}", factor * value.get<double>(), unit);
  };
  std::string out = fmt::format(
      "fitted to {} drafts; of {} others:\nplace   drafts  temperature        error         "
      "     AUC\n",
      report["drafts_fitted"].get<int64_t>(), report["drafts_held_out"].get<int64_t>());
  for (const ordered_json& place : report["positions"]) {
    out += fmt::format("{:>5} {:>8}  {:>5} -> {:<5}  {:>6} -> {:<6}  {:>6} -> {:<6}\n", place["position"].get<int>(),
                       place["drafts"].get<int64_t>(), number(place["temperature_before"], 1, ""),
                       number(place["temperature"], 1, ""), number(place["calibration_error_before"], 100, " %"),
                       number(place["calibration_error"], 100, " %"), number(place["auc_before"], 1, ""),
                       number(place["auc"], 1, ""));
  }
  out += fmt::format("mean error of survival {} -> {}\n", number(report["calibration_error_before"], 100, " %"),
                     number(report["calibration_error"], 100, " %"));
  return out + (report["written"].get<bool>() ? fmt::format("written to {}\n", report["path"].get<std::string>())
                                              : "no better than what there is: nothing is written\n");
}

}  // namespace

Result<ExitCode> cmd_calibrate(const Invocation& call) {
  const Settings& settings = call.settings;
  if (settings.get<"prompts">().empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no prompts to calibrate on; name a file with --prompts FILE");
  }
  std::vector<std::shared_ptr<WatchedDrafter>> watched;
  DSPARK_TRY(EngineOptions asked, watched_engine(settings, kMostDrafted, &watched));
  DSPARK_TRY(const Subject subject, find_subject(&asked));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(asked));
  DSPARK_TRY(const Halves halves, load_halves(*engine, settings));
  EvalOptions options;
  options.sampling.temperature = settings.get<"temp">();
  options.sampling.seed = static_cast<uint64_t>(settings.get<"seed">());
  options.max_tokens = settings.is_set<"max-tokens">() ? static_cast<int>(settings.get<"max-tokens">()) : kUsualTokens;
  options.slots = static_cast<int>(settings.get<"slots">());
  const InterruptScope interrupt;
  Progress progress("answers", ProgressUnit::kSteps,
                    static_cast<int64_t>(halves.fitted.size() + halves.held_out.size()));
  int64_t before = 0;
  const auto report_done = [&](int64_t done) {
    progress.update(before + done);
    return !interrupt.requested();
  };
  DSPARK_TRY(const DraftQuality fitted, evaluate_drafts(*engine, watched, halves.fitted, options, report_done));
  DSPARK_RETURN_IF_ERROR(expect_enough(fitted, "fitted to"));
  before = fitted.prompts;
  DSPARK_TRY(const DraftQuality held_out, evaluate_drafts(*engine, watched, halves.held_out, options, report_done));
  DSPARK_RETURN_IF_ERROR(expect_enough(held_out, "held out"));

  const Calibration after = fit_calibration(fitted.confidences, subject.positions);
  const double was = mean_error(held_out.confidences, subject.before, subject.positions);
  const double is = mean_error(held_out.confidences, after, subject.positions);
  const bool better = is < was;
  if (better) DSPARK_RETURN_IF_ERROR(write_calibration(subject.path, subject.digest, after));
  const ordered_json report = {{"drafter", subject.path},
                               {"drafter_digest", to_hex(subject.digest)},
                               {"temperature", options.sampling.temperature},
                               {"drafts_fitted", fitted.confidences.size()},
                               {"drafts_held_out", held_out.confidences.size()},
                               {"positions", positions_json(held_out.confidences, subject, after)},
                               {"calibration_error_before", was},
                               {"calibration_error", is},
                               {"written", better},
                               {"path", calibration_path(subject.path)}};
  DSPARK_RETURN_IF_ERROR(settings.get<"json">() ? write_json(report) : write_output(as_text(report)));
  return ExitCode::kOk;
}

}  // namespace dspark
