// `dspark debug`: one small answer, stage by stage, and why nothing is guessed if nothing is. Main thread.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/request_stream.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/debug_request.h"
#include "tools/io.h"
#include "tools/speculation_causes.h"

namespace dspark {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kShownSteps = 5;

// A file for the decision log, for as long as this lives.
class ScratchFile {
 public:
  ScratchFile() {
    std::error_code error;
    path_ = (std::filesystem::temp_directory_path(error) / "dspark-debug-XXXXXX").string();
    if (const int fd = mkstemp(path_.data()); fd >= 0) close(fd);
  }
  ~ScratchFile() {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::string& path() const { return path_; }

  std::vector<json> lines() const {
    std::ifstream in(path_);
    std::vector<json> out;
    for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
    return out;
  }

 private:
  std::string path_;
};

struct Run {
  StreamedAnswer answer;  // of the first of them
  double seconds = 0.0;
  LoopStats stats;
  std::vector<json> decisions;  // the log's lines
};

Result<Run> answer(Engine& engine, const Request& request, int64_t batch) {
  const auto start = std::chrono::steady_clock::now();
  RequestStream stream(engine.loop(), static_cast<int>(batch));
  for (int64_t i = 0; i < batch; ++i) DSPARK_RETURN_IF_ERROR(stream.add(static_cast<uint64_t>(i), request));
  Run run;
  while (stream.active() > 0) {
    DSPARK_TRY(std::vector<StreamedAnswer> done, stream.take());
    for (StreamedAnswer& each : done) {
      if (each.tag == 0) run.answer = std::move(each);
    }
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  engine.loop().wait_until_idle(std::chrono::seconds(10));
  run.stats = engine.loop().stats();  // nobody else has asked this engine anything
  return run;
}

// What is known of why guesses helped or did not.
SpeculationFacts facts_of(const Settings& settings, const EngineOptions& options, bool trained, int draft_tokens,
                          const Run& run) {
  SpeculationFacts facts = {.enabled = settings.get<"enable-dspark">() != "off",
                            .varying_length = settings.get<"enable-mtp-varlen">(),
                            .with = draft_with_from_name(settings.get<"draft-with">()).value(),  // checked
                            .fixed = options.speculation.fixed,
                            .threshold = options.speculation.floor,
                            .draft_tokens = draft_tokens,
                            .prompt_tokens = static_cast<int>(run.answer.prompt.size()),
                            .output_tokens = static_cast<int>(run.answer.tokens.size()),
                            .trained_drafter = trained,
                            .stats = run.stats};
  for (const json& line : run.decisions) {
    if (line.value("drafted", 0) == 0) continue;
    ++facts.proposals;
    facts.best_survival = std::max(facts.best_survival, line["survival"][0].get<double>());
  }
  return facts;
}

// What the debugging run says, stage by stage: as it comes, or as one object at the end.
class Report {
 public:
  explicit Report(bool json_wanted) : json_wanted_(json_wanted) {}
  Status stage(const char* name, ordered_json facts, const std::string& text) {
    json_[name] = std::move(facts);
    return json_wanted_ ? Status(Ok{}) : write_output(fmt::format("{:<12} {}\n", name, text));
  }
  Status end() { return json_wanted_ ? write_json(json_) : Status(Ok{}); }

 private:
  const bool json_wanted_;
  ordered_json json_ = ordered_json::object();
};

Status report_model(Report& report, Engine& engine, const EngineOptions& options) {
  return report.stage("model",
                      {{"path", options.model},
                       {"architecture", engine.config().architecture},
                       {"layers", engine.config().layers},
                       {"seconds", engine.load_seconds()},
                       {"threads", engine.runner().pool().size()},
                       {"isa", isa_name(engine.runner().isa())}},
                      fmt::format("{} in {:.2f} s: {}, {} layers, context {}; {} threads, {}", options.model,
                                  engine.load_seconds(), engine.config().architecture, engine.config().layers,
                                  engine.context(), engine.runner().pool().size(), isa_name(engine.runner().isa())));
}

// The drafters that are at work; whether one of them was trained.
Result<bool> report_drafters(Report& report, const StepLoop& loop) {
  std::vector<std::string> names;
  bool trained = false;
  for (const auto& drafter : loop.options().drafters) {
    names.push_back(fmt::format("{} (drafts of up to {})", drafter->name(), drafter->max_tokens()));
    trained = trained || drafter->costs_time();
  }
  DSPARK_RETURN_IF_ERROR(
      report.stage("drafters", names, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  return trained;
}

Status report_cache(Report& report, Engine& engine) {
  const KvStats kv = engine.runner().kv().stats();
  return report.stage("cache",
                      {{"blocks", kv.capacity_blocks}, {"block_bytes", kv.block_bytes}, {"taken", kv.memory_bytes}},
                      fmt::format("{} blocks of {} positions and {} bytes, {:.1f} MB taken so far", kv.capacity_blocks,
                                  kTilePositions, kv.block_bytes, static_cast<double>(kv.memory_bytes) / 1e6));
}

Status report_run(Report& report, const Engine& engine, const Run& run) {
  return report.stage("answer",
                      {{"prompt_tokens", run.answer.prompt.size()},
                       {"tokens", run.answer.tokens.size()},
                       {"steps", run.stats.steps},
                       {"seconds", run.seconds},
                       {"text", engine.tokenizer().decode(run.answer.tokens)}},
                      fmt::format("{} tokens of prompt, {} of answer in {} steps and {:.2f} s",
                                  run.answer.prompt.size(), run.answer.tokens.size(), run.stats.steps, run.seconds));
}

Status report_cost(Report& report, const CostModel& cost) {
  ordered_json points = ordered_json::array();
  std::string text;
  for (const int rows : {1, 2, 4, 8, 16, 32}) {
    const double ms = cost.ms({.rows = rows});
    points.push_back({{"rows", rows}, {"ms", ms}});
    text += fmt::format("{}{}: {:.2f}", text.empty() ? "" : ", ", rows, ms);
  }
  return report.stage("cost", points, "ms of a step by its rows, as learnt from these steps: " + text);
}

Status report_calibration(Report& report, const SpeculationStats& stats) {
  ordered_json places = ordered_json::array();
  std::string text;
  for (size_t i = 0; i < stats.verified.size() && stats.verified[i] > 0; ++i) {
    double foretold = 0.0;
    for (const SurvivalBin& bin : stats.survival[i]) foretold += bin.foretold;
    const auto verified = static_cast<double>(stats.verified[i]);
    const double actual = static_cast<double>(stats.accepted[i]) / verified;
    places.push_back({{"position", i + 1}, {"foretold", foretold / verified}, {"actual", actual}});
    text += fmt::format("{}{}: {:.2f} {:.2f}", text.empty() ? "" : ", ", i + 1, foretold / verified, actual);
  }
  return report.stage("calibration", places,
                      text.empty() ? "nothing was verified" : "survival by place, foretold and actual: " + text);
}

Status report_drafts(Report& report, const std::vector<json>& decisions) {
  ordered_json shown = ordered_json::array();
  std::string text = fmt::format("the first of {} steps with guesses", [&] {
    return std::ranges::count_if(decisions, [](const json& line) { return line.value("drafted", 0) > 0; });
  }());
  for (const json& line : decisions) {
    if (line.value("drafted", 0) == 0 || shown.size() == kShownSteps) continue;
    std::string survival;
    for (const json& chance : line["survival"]) survival += fmt::format(" {:.2f}", chance.get<double>());
    text += fmt::format("\n{:<12}   step {}: {} guesses with survival{}; {} checked, {} accepted", "",
                        line["step"].get<int64_t>(), line["drafter"].get<std::string>(), survival,
                        line["verified"].get<int>(), line["accepted"].get<int>());
    shown.push_back(ordered_json(line));
  }
  return report.stage("drafts", shown, text);
}

Status report_verdict(Report& report, const SpeculationFacts& facts) {
  const auto causes = speculation_causes(facts);
  ordered_json json_causes = ordered_json::array();
  std::string text;
  for (const SpeculationCause& cause : causes) {
    json_causes.push_back({{"name", cause.name}, {"text", cause.text}});
    text += fmt::format("\n{:<12}   {}: {}", "", cause.name, cause.text);
  }
  const LoopStats& stats = facts.stats;
  return report.stage(
      "verdict", {{"drafted", stats.drafted}, {"accepted", stats.accepted}, {"causes", json_causes}},
      (stats.accepted == 0 ? "guesses bring nothing here, because"
                           : fmt::format("speculation works: {} guesses were checked, {} accepted{}", stats.drafted,
                                         stats.accepted, causes.empty() ? "" : "; but")) +
          text);
}

}  // namespace

Result<ExitCode> cmd_debug(const Invocation& call) {
  const Settings& settings = call.settings;
  const ScratchFile decisions;
  DSPARK_TRY(EngineOptions options, engine_options(settings));
  options.decision_log = decisions.path();
  DSPARK_TRY(const auto engine, open_engine(options));
  Report report(settings.get<"json">());
  DSPARK_RETURN_IF_ERROR(report_model(report, *engine, options));
  DSPARK_TRY(const bool trained, report_drafters(report, engine->loop()));
  DSPARK_RETURN_IF_ERROR(report_cache(report, *engine));
  DSPARK_TRY(const Request request, debug_request(settings, *engine));
  DSPARK_TRY(Run run, answer(*engine, request, settings.get<"batch">()));
  run.decisions = decisions.lines();
  DSPARK_RETURN_IF_ERROR(report_run(report, *engine, run));
  DSPARK_RETURN_IF_ERROR(report_cost(report, engine->loop().cost()));
  DSPARK_RETURN_IF_ERROR(report_calibration(report, run.stats.speculation));
  DSPARK_RETURN_IF_ERROR(report_drafts(report, run.decisions));
  DSPARK_RETURN_IF_ERROR(report_verdict(report, facts_of(settings, options, trained, request.draft_tokens, run)));
  DSPARK_RETURN_IF_ERROR(report.end());
  return ExitCode::kOk;
}

}  // namespace dspark
