// See compute.h. Main thread.
#include "tools/compute.h"

#include "base/cpu.h"
#include "base/log.h"
#include "tools/model_choice.h"

namespace dspark {

ThreadPool::Options pool_options(const Settings& settings) {
  const int64_t threads = settings.get<"threads">();
  return {.threads = threads == 0 ? usable_cores() : static_cast<int>(threads), .pin = settings.get<"pin">()};
}

Result<Isa> chosen_isa(const Settings& settings) { return isa_from_name(settings.get<"isa">()); }

Result<std::unique_ptr<Engine>> open_engine(const Settings& settings) {
  const ThreadPool::Options pool = pool_options(settings);
  EngineOptions options;
  options.runner.threads = pool.threads;
  options.runner.pin = pool.pin;
  DSPARK_TRY(options.runner.isa, chosen_isa(settings));
  DSPARK_TRY(options.runner.kv_type, dtype_from_name(settings.get<"kv-type">()));
  options.runner.kv_memory_bytes = settings.get<"kv-memory">();
  if (settings.get<"quantize">() != "none") {
    DSPARK_TRY(options.runner.quantize, dtype_from_name(settings.get<"quantize">()));
  }
  options.context = static_cast<int>(settings.get<"context">());
  options.prompt_chunk = static_cast<int>(settings.get<"chunk">());
  DSPARK_TRY(options.model, local_model(settings.get<"model">()));
  log(LogLevel::kInfo, "loading {} with {} threads, {} kernels, {} keys and values", options.model, pool.threads,
      isa_name(options.runner.isa), settings.get<"kv-type">());
  DSPARK_TRY(std::unique_ptr<Engine> engine, Engine::open(options));
  log(LogLevel::kInfo, "loaded in {:.2f} s: {}, {} layers, context {}", engine->load_seconds(),
      engine->config().architecture, engine->config().layers, engine->context());
  return engine;
}

}  // namespace dspark
