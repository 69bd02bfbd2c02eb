// See compute.h. Main thread.
#include "tools/compute.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/cache_dir.h"
#include "base/cpu.h"
#include "base/log.h"
#include "tools/model_choice.h"

namespace dspark {

ThreadPool::Options pool_options(const Settings& settings) {
  const int64_t threads = settings.get<"threads">();
  return {.threads = threads == 0 ? usable_cores() : static_cast<int>(threads), .pin = settings.get<"pin">()};
}

Result<Isa> chosen_isa(const Settings& settings) { return isa_from_name(settings.get<"isa">()); }

Result<ScheduleOptions> schedule_options(const Settings& settings) {
  ScheduleOptions options;
  DSPARK_TRY(options.policy, schedule_policy_from_name(settings.get<"dspark-scheduler-policy">()));
  DSPARK_TRY(options.pool_shares, pool_shares_from_text(settings.get<"pool">()));
  options.max_running = static_cast<int>(settings.get<"max-running">());
  options.max_rows = static_cast<int>(settings.get<"chunk">());
  options.step_budget = static_cast<int>(settings.get<"step-budget">());
  options.inter_token_ms = static_cast<double>(settings.get<"inter-token-target">().count());
  return options;
}

namespace {

bool speculates(const Settings& settings) {
  return settings.get<"enable-dspark">() != "off" && settings.get<"enable-mtp-varlen">();
}

Result<WindowOptions> window_options(const Settings& settings) {
  WindowOptions window = {.size = static_cast<int>(settings.get<"dflash-window-size">()),
                          .min = static_cast<int>(settings.get<"dspark-dsw-min-window">()),
                          .max = static_cast<int>(settings.get<"dspark-dsw-max-window">())};
  if (window.min == 0 && window.max == 0) return window;
  if (window.min == 0) window.min = std::min(128, window.max);
  if (window.max == 0) window.max = window.size;
  if (window.min < window.max) return window;
  return make_error(ErrorCode::kInvalidArgument,
                    "dspark-dsw-min-window {} and dspark-dsw-max-window {}, expected the first below the second",
                    window.min, window.max);
}

// Shipped drafters lie beside the program's folder, others where the user's data and caches are.
std::vector<std::string> drafter_folders() {
  std::vector<std::string> folders;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path around = program.parent_path().parent_path();
    folders.push_back((around / "drafters").string());
    folders.push_back((around / "share" / "dspark" / "drafters").string());
  }
  if (const char* data = std::getenv("XDG_DATA_HOME"); data != nullptr && data[0] == '/') {
    folders.push_back(std::string(data) + "/dspark/drafters");
  } else if (const char* home = std::getenv("HOME"); home != nullptr && home[0] == '/') {
    folders.push_back(std::string(home) + "/.local/share/dspark/drafters");
  }
  if (const auto cache = cache_dir(); cache.ok()) folders.push_back(*cache + "/drafters");
  return folders;
}

}  // namespace

Result<DrafterOptions> drafter_options(const Settings& settings) {
  DrafterOptions options;
  DSPARK_TRY(options.with, draft_with_from_name(settings.get<"draft-with">()));
  options.file = settings.get<"drafter">();
  options.folders = drafter_folders();
  options.model = settings.get<"draft-model">();  // a path once engine_options has fetched it
  if (options.with == DraftWith::kModel && options.model.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--draft-with model needs a model: name it with --draft-model MODEL");
  }
  if (!options.model.empty() && options.with != DraftWith::kModel && options.with != DraftWith::kAuto) {
    return make_error(ErrorCode::kInvalidArgument, "--draft-model names a model, --draft-with {} asks for none",
                      settings.get<"draft-with">());
  }
  if (!options.file.empty() && (options.with != DraftWith::kAuto && options.with != DraftWith::kDspark)) {
    return make_error(ErrorCode::kInvalidArgument, "--drafter names a drafter, --draft-with {} asks for none",
                      settings.get<"draft-with">());
  }
  if (!speculates(settings)) options.with = DraftWith::kNone;
  return options;
}

Result<int> fixed_drafts_from_mode(const std::string& mode) {
  constexpr std::string_view kFixed = "fixed:";
  if (mode == "planned") return -1;
  int fixed = 0;
  const std::string_view digits = std::string_view(mode).substr(std::min(mode.size(), kFixed.size()));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fixed);
  if (!mode.starts_with(kFixed) || error != std::errc() || end != digits.data() + digits.size() || fixed < 0 ||
      fixed > kMostDrafted) {
    return make_error(ErrorCode::kInvalidArgument, "dspark-mode '{}', expected planned, or fixed:K with K from 0 to {}",
                      mode, kMostDrafted);
  }
  return fixed;
}

Result<SpeculationOptions> speculation_options(const Settings& settings) {
  SpeculationOptions options;
  options.enabled = speculates(settings);
  options.floor = settings.get<"dflash-validation-threshold">();
  // The smallest cap that is set wins.
  for (const int64_t cap : {settings.get<"dflash-max-reuse-depth">(), settings.get<"nextn-decode">()}) {
    if (cap > 0) options.most_tokens = std::min(options.most_tokens, static_cast<int>(cap));
  }
  DSPARK_TRY(options.window, window_options(settings));
  DSPARK_TRY(options.fixed, fixed_drafts_from_mode(settings.get<"dspark-mode">()));
  return options;
}

Status check_settings(const Settings& settings) {
  DSPARK_TRY([[maybe_unused]] const ScheduleOptions schedule, schedule_options(settings));
  DSPARK_TRY([[maybe_unused]] const SpeculationOptions speculation, speculation_options(settings));
  DSPARK_TRY([[maybe_unused]] const DrafterOptions drafter, drafter_options(settings));
  return Ok{};
}

Result<EngineOptions> engine_options(const Settings& settings) {
  const ThreadPool::Options pool = pool_options(settings);
  EngineOptions options;
  options.runner.threads = pool.threads;
  options.runner.pin = pool.pin;
  DSPARK_TRY(options.runner.isa, chosen_isa(settings));
  DSPARK_TRY(options.runner.kv_type, dtype_from_name(settings.get<"kv-type">()));
  options.runner.kv_memory_bytes = settings.get<"kv-memory">();
  options.runner.kv_prealloc_ratio = settings.get<"cache-prealloc-ratio">();
  options.runner.kv_shards = static_cast<int>(settings.get<"dspark-shard-count">());
  if (const auto cache = cache_dir(); cache.ok()) options.runner.digest_folder = *cache + "/digests";
  if (settings.get<"quantize">() != "none") {
    DSPARK_TRY(options.runner.quantize, dtype_from_name(settings.get<"quantize">()));
  }
  options.context = static_cast<int>(settings.get<"context">());
  DSPARK_TRY(options.schedule, schedule_options(settings));
  DSPARK_TRY(options.speculation, speculation_options(settings));
  options.decision_log = settings.get<"log-dflash-details">();
  const std::string profile = settings.get<"cost-profile">();
  options.costs = {.measure = profile != "off", .again = profile == "new"};
  if (const auto cache = cache_dir(); cache.ok()) options.costs.folder = *cache + "/costs";
  DSPARK_TRY(options.drafter, drafter_options(settings));
  options.max_queue = static_cast<int>(settings.get<"max-queue">());
  if (settings.get<"enable-cache-defrag">()) options.defrag_every = settings.get<"cache-defrag-every">();
  DSPARK_TRY(options.model, local_model(settings.get<"model">()));
  if (!options.drafter.model.empty() && options.drafter.with != DraftWith::kNone) {
    DSPARK_TRY(options.drafter.model, local_model(options.drafter.model));
  }
  return options;
}

EngineOptions without_drafts(EngineOptions options) {
  options.speculation.enabled = false;
  options.drafter.with = DraftWith::kNone;
  return options;
}

Result<std::unique_ptr<Engine>> open_engine(const Settings& settings) {
  DSPARK_TRY(const EngineOptions options, engine_options(settings));
  return open_engine(options);
}

Result<std::unique_ptr<Engine>> open_engine(const EngineOptions& options) {
  log(LogLevel::kInfo, "loading {} with {} threads, {} kernels, {} keys and values", options.model,
      options.runner.threads, isa_name(options.runner.isa), dtype_info(options.runner.kv_type).name);
  DSPARK_TRY(std::unique_ptr<Engine> engine, Engine::open(options));
  log(LogLevel::kInfo, "loaded in {:.2f} s: {}, {} layers, context {}", engine->load_seconds(),
      engine->config().architecture, engine->config().layers, engine->context());
  return engine;
}

void warn_without_template(const Engine& engine) {
  if (!engine.chat_template().built_in()) return;
  log(LogLevel::kWarning,
      "the model has no chat template, so conversations are written as ChatML; if it is not instruction-tuned, let it "
      "continue texts instead: `run --raw`, or /v1/completions");
}

}  // namespace dspark
