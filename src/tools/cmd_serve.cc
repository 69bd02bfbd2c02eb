// `dspark serve`: binds the engine to the HTTP server. Main thread; the server has threads of its own.
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <future>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/printable.h"
#include "server/service.h"
#include "server/warm_up.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/serving_report.h"

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
  options.names.limits.max_choices = static_cast<int>(settings.get<"max-choices">());
  options.names.limits.max_body_bytes = static_cast<size_t>(settings.get<"max-body">());
  options.cors_origins = settings.get<"cors-origin">();
  if (const std::string path = settings.get<"api-keys">(); !path.empty()) {
    DSPARK_TRY(options.keys, ApiKeys::load(path));
  }
  return options;
}

Result<std::shared_ptr<const ServedModel>> served_model(const Settings& settings, Engine& engine) {
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
                  .debug_cache = [&engine] { return cache_report(engine.runner().kv()); }});
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
  const ApiKeys keys = options.keys;
  Service service(*server, std::move(options), access_log.get());
  server->start(service);
  DSPARK_RETURN_IF_ERROR(write_output(
      fmt::format("listening on {}://{}:{}\n", http.tls_key.empty() ? "http" : "https",
                  http.host.find(':') == std::string::npos ? http.host : "[" + http.host + "]", server->port())));
  const auto serve = [&]() -> Status {
    DSPARK_TRY(engine, open_engine(settings));
    DSPARK_TRY(auto model, served_model(settings, *engine));
    DSPARK_RETURN_IF_ERROR(warm_up_cache(settings, *model, keys, engine->runner().kv()));
    const InterruptScope interrupt(true);
    service.set_model(std::move(model));
    DSPARK_RETURN_IF_ERROR(write_output("ready\n"));
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
