// `dspark serve`: binds the engine to the HTTP server. Main thread; the server has threads of its own.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/printable.h"
#include "server/service.h"
#include "server/warm_up.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/serving_report.h"
#include "tools/supervisor.h"

namespace dspark {
namespace {

HttpOptions http_options(const Settings& settings) {
  HttpOptions options;
  options.host = settings.get<"host">();
  options.port = static_cast<int>(settings.get<"port">());
  options.tls_certificate = settings.get<"tls-cert">();
  options.tls_key = settings.get<"tls-key">();
  options.max_connections = static_cast<size_t>(settings.get<"max-connections">());
  options.client_timeout = settings.get<"client-timeout">();
  options.max_body_total = std::max(options.max_body_total, 4 * static_cast<size_t>(settings.get<"max-body">()));
  return options;
}

Result<ServiceOptions> service_options(const Settings& settings) {
  ServiceOptions options;
  options.names.models = settings.get<"served-model-name">();
  if (options.names.models.empty()) options.names.models = {settings.get<"model">()};
  // The answers of one request run together or not at all.
  options.names.limits.max_choices =
      static_cast<int>(std::min(settings.get<"max-choices">(), settings.get<"max-running">()));
  options.names.limits.max_body_bytes = static_cast<size_t>(settings.get<"max-body">());
  options.metrics = settings.get<"enable-metrics">();
  options.cors_origins = settings.get<"cors-origin">();
  if (const std::string path = settings.get<"api-keys">(); !path.empty()) {
    DSPARK_TRY(options.keys, ApiKeys::load(path));
  }
  return options;
}

// What of the settings can change while the engine runs.
Result<LiveLoopOptions> live_options(const Settings& settings) {
  LiveLoopOptions options;
  DSPARK_TRY(options.schedule, schedule_options(settings));
  DSPARK_TRY(options.speculation, speculation_options(settings));
  options.max_queue = static_cast<int>(settings.get<"max-queue">());
  return options;
}

// What runs under the live configuration, and what a change of it takes. Network thread.
class LiveEngine {
 public:
  LiveEngine(const Settings& settings, Engine& engine) : engine_(engine), drafter_(settings.get<"drafter">()) {
    const auto start = live_options(settings);
    drafts_ = start.ok() && start->speculation.enabled;
  }

  Status check(const Settings& wanted) {
    DSPARK_RETURN_IF_ERROR(check_settings(wanted));
    DSPARK_TRY(const LiveLoopOptions options, live_options(wanted));
    if (!drafts_ && options.speculation.enabled) {
      return make_error(ErrorCode::kUnsupported,
                        "the server was started without speculation, so no drafter is loaded; restart it with "
                        "--enable-dspark auto");
    }
    loaded_.reset();
    if (wanted.get<"drafter">() == drafter_) return Ok{};
    DSPARK_TRY(const DrafterOptions which, drafter_options(wanted));
    DSPARK_TRY(loaded_, engine_.load_new_drafter(which));
    return Ok{};
  }

  // As checked last.
  void apply(const Settings& wanted) {
    engine_.loop().reconfigure(live_options(wanted).value());
    if (!loaded_) return;
    engine_.loop().replace_drafter(*std::exchange(loaded_, std::nullopt));
    drafter_ = wanted.get<"drafter">();
  }

 private:
  Engine& engine_;
  bool drafts_ = false;
  std::string drafter_;               // the setting whose drafter runs
  std::optional<NewDrafter> loaded_;  // for the change that was checked last
};

std::shared_ptr<LiveConfig> live_config(const Settings& settings, Engine& engine) {
  const auto live = std::make_shared<LiveEngine>(settings, engine);
  return std::make_shared<LiveConfig>(
      settings, LiveConfig::Hooks{.check = [live](const Settings& wanted) { return live->check(wanted); },
                                  .apply = [live](const Settings& wanted) { live->apply(wanted); }});
}

constexpr std::string_view kSelfTest = "One, two, three, four,";

std::unique_ptr<HealthMonitor> health_monitor(const Settings& settings, Engine& engine) {
  if (!settings.get<"enable-health-check">()) return nullptr;
  const HealthOptions options = {.step_timeout = settings.get<"step-timeout">(),
                                 .self_test_every = settings.get<"self-test-every">()};
  std::vector<int32_t> prompt;
  if (options.self_test_every.count() > 0) prompt = engine.tokenizer().encode(kSelfTest, {});
  return std::make_unique<HealthMonitor>(
      engine.loop(), [&engine] { return engine.loop().stats(); }, std::move(prompt), options,
      [] { tell_supervisor("WATCHDOG=1"); });
}

Result<std::shared_ptr<const ServedModel>> served_model(const Settings& settings, Engine& engine,
                                                        const HealthMonitor* health) {
  DSPARK_TRY(const ToolFormat tools, tool_format(settings.get<"tool-parser">(), engine.tokenizer()));
  return std::make_shared<const ServedModel>(
      ServedModel{.tokenizer = engine.tokenizer(),
                  .chat_template = engine.chat_template(),
                  .serving = engine.loop(),
                  .context = engine.context(),
                  .vocab = engine.config().vocab,
                  .hidden_size = engine.config().hidden,
                  .tokenizer_threads = engine.runner().pool().size(),
                  .fingerprint = fingerprint(settings, engine),
                  .tools = tools,
                  .metrics = [&engine] { return engine_metrics(engine); },
                  .debug_cache = [&engine] { return cache_report(engine.runner().kv()); },
                  .config = live_config(settings, engine),
                  .health = health});
}

Status warm_up_cache(const Settings& settings, const ServedModel& model, const ApiKeys& keys, const KvCache& kv) {
  const std::string path = settings.get<"cache-warmup-file">();
  if (path.empty()) return Ok{};
  DSPARK_TRY(std::vector<Request> requests, read_warm_up(path, model, keys));
  log(LogLevel::kInfo, "warming the KV cache up with {} prompts", requests.size());
  DSPARK_RETURN_IF_ERROR(warm_up(model.serving, std::move(requests)));
  const int64_t left = kv.available_blocks() * kTilePositions;
  if (left >= model.context) return Ok{};
  return make_error(
      ErrorCode::kExhausted,
      "what {} keeps leaves {} positions of the KV memory, less than the context of {}; raise --kv-memory", quote(path),
      left, model.context);
}

void wait_for(const InterruptScope& interrupt) {
  pollfd wait{interrupt.wake_fd(), POLLIN, 0};
  while (!interrupt.requested()) {
    if (poll(&wait, 1, -1) < 0 && errno != EINTR) return;
  }
}

// Lets running requests end, and ends those that do not within --drain-timeout.
void drain(const Settings& settings, Service& service) {
  log(LogLevel::kInfo, "shutting down");
  tell_supervisor("STOPPING=1");
  std::promise<void> drained;
  service.drain(settings.get<"drain-timeout">(), [&] { drained.set_value(); });
  drained.get_future().wait();
}

}  // namespace

Result<ExitCode> cmd_serve(const Invocation& call) {
  const Settings& settings = call.settings;
  if (settings.get<"log-prompts">() && settings.get<"access-log">().empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--log-prompts needs a log; name its file with --access-log");
  }
  DSPARK_TRY(ServiceOptions options, service_options(settings));
  std::unique_ptr<AccessLog> access_log;
  if (const std::string path = settings.get<"access-log">(); !path.empty()) {
    DSPARK_TRY(access_log, AccessLog::open(path, settings.get<"log-prompts">()));
  }
  // What is declared first ends last: the engine's threads still tell the server when requests end.
  const HttpOptions http = http_options(settings);
  DSPARK_TRY(const std::unique_ptr<HttpServer> server, HttpServer::listen(http));
  std::unique_ptr<Engine> engine;
  std::unique_ptr<HealthMonitor> health;
  const ApiKeys keys = options.keys;
  Service service(*server, std::move(options), access_log.get());
  server->start(service);
  DSPARK_RETURN_IF_ERROR(write_output(
      fmt::format("listening on {}://{}:{}\n", http.tls_key.empty() ? "http" : "https",
                  http.host.find(':') == std::string::npos ? http.host : "[" + http.host + "]", server->port())));
  const auto serve = [&]() -> Status {
    DSPARK_TRY(engine, open_engine(settings));
    warn_without_template(*engine);
    health = health_monitor(settings, *engine);
    DSPARK_TRY(auto model, served_model(settings, *engine, health.get()));
    DSPARK_RETURN_IF_ERROR(warm_up_cache(settings, *model, keys, engine->runner().kv()));
    const InterruptScope interrupt(true);
    service.set_model(std::move(model));
    DSPARK_RETURN_IF_ERROR(write_output("ready\n"));
    tell_supervisor("READY=1");
    wait_for(interrupt);
    drain(settings, service);
    return Ok{};
  };
  const Status served = serve();
  server->stop();
  DSPARK_RETURN_IF_ERROR(served);
  return ExitCode::kOk;
}

}  // namespace dspark
