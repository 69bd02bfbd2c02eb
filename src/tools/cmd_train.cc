// `dspark train`: trains a drafter for a model. Main thread; the engine's workers compute.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/model_choice.h"
#include "tools/progress.h"
#include "train/online_training.h"
#include "train/trainer.h"

namespace dspark {

namespace {

// Beside a server that answers: it takes what the server leaves. The engine's threads inherit it.
constexpr int kNiceness = 15;

Status step_back() {
  errno = 0;
  const int now = getpriority(PRIO_PROCESS, 0);
  if (errno == 0 && (now >= kNiceness || setpriority(PRIO_PROCESS, 0, kNiceness) == 0)) return Ok{};
  return make_error(ErrorCode::kInternal, "the priority cannot be lowered: errno {}", errno);
}

std::string as_text(const OnlineResult& result, const OnlineOptions& options) {
  std::string out =
      fmt::format("{} answers of the log, {} tokens ({} repeated, {} other requests left out)\n",
                  result.data.conversations, result.data.answer_tokens, result.data.repeated, result.data.left_out);
  out += fmt::format("tau {:.3f} -> {:.3f} on {} held-out conversations, after {} steps\n", result.tau_before,
                     result.tau_after, result.held_out, result.steps);
  if (!result.better) return out + "no better than the drafter that there is: nothing is offered\n";
  return out + fmt::format(
                   "{0}/drafter.gguf is better. A running server takes it with\n"
                   "  dspark config set drafter={0}/drafter.gguf\n",
                   options.folder);
}

Result<ExitCode> fine_tune(const Settings& settings, const std::string& folder) {
  DSPARK_RETURN_IF_ERROR(step_back());
  OnlineOptions options = {.folder = folder, .log = settings.get<"online">()};
  if (settings.is_set<"recipe">()) options.recipe = settings.get<"recipe">();
  DSPARK_TRY(options.type, dtype_from_name(settings.get<"drafter-type">()));
  DSPARK_TRY(const EngineOptions engine_wanted, engine_options(settings));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(without_drafts(engine_wanted)));
  DSPARK_TRY(const DrafterFile start,
             require_drafter(engine_wanted.drafter, engine->runner().digest(), engine_wanted.runner.digest_folder,
                             engine->runner().pool().size()));
  options.drafter = start.file.tensors().path();
  const InterruptScope interrupt(true);
  Progress progress("training", ProgressUnit::kSteps, 0);
  DSPARK_TRY(const OnlineResult result, train_online(*engine, options, [&](const TrainProgress& now) {
               progress.update(now.step, now.steps);
               return !interrupt.requested();
             }));
  DSPARK_RETURN_IF_ERROR(write_output(as_text(result, options)));
  return ExitCode::kOk;
}

}  // namespace

Result<ExitCode> cmd_train(const Invocation& call) {
  const Settings& settings = call.settings;
  if (!settings.get<"online">().empty()) return fine_tune(settings, call.operands[0]);
  TrainOptions options;
  options.folder = call.operands[0];
  options.data = settings.get<"data">();
  options.recipe = settings.get<"recipe">();
  options.feature_bytes = settings.get<"feature-cache">();
  DSPARK_TRY(const DType type, dtype_from_name(settings.get<"drafter-type">()));
  DSPARK_TRY(const std::string path, local_model(settings.get<"model">()));
  DSPARK_TRY(const ModelFile file, ModelFile::open(path));
  DSPARK_TRY(const EngineOptions asked, engine_options(settings));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(without_drafts(asked)));
  DSPARK_TRY(const std::unique_ptr<Trainer> trainer, Trainer::open(*engine, options));
  const InterruptScope interrupt(true);
  Progress progress("training", ProgressUnit::kSteps, trainer->recipe().steps);
  const int64_t first = trainer->state().predictions;
  double feature_seconds = 0, train_seconds = 0;
  DSPARK_RETURN_IF_ERROR(trainer->run([&](const TrainProgress& now) {
    feature_seconds += now.feature_seconds;
    train_seconds += now.train_seconds;
    progress.update(now.step);
    return !interrupt.requested();
  }));
  // The tokenizer is for llama.cpp, which knows no lookups.
  DSPARK_RETURN_IF_ERROR(
      trainer->write(type, trainer->recipe().drafter.lookup ? nullptr : file.gguf(), options.folder + "/drafter.gguf"));
  const auto trained = static_cast<double>(trainer->state().predictions - first);
  DSPARK_RETURN_IF_ERROR(write_output(
      fmt::format("{}: step {} of {}, {} predictions from {} answer tokens; this run {:.0f} predictions/s: {:.0f} s "
                  "for features ({} "
                  "read, {} computed), {:.0f} s for training\n",
                  options.folder, trainer->state().step, trainer->recipe().steps, trainer->state().predictions,
                  trainer->data().answer_tokens(), trained / std::max(1e-9, feature_seconds + train_seconds),
                  feature_seconds, trainer->features().hits(), trainer->features().misses(), train_seconds)));
  return interrupt.requested() ? ExitCode::kInterrupted : ExitCode::kOk;
}

}  // namespace dspark
