// `dspark train`: trains a drafter for a model. Main thread; the engine's workers compute.
#include <fmt/format.h>

#include <algorithm>

#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/model_choice.h"
#include "tools/progress.h"
#include "train/trainer.h"

namespace dspark {

Result<ExitCode> cmd_train(const Invocation& call) {
  const Settings& settings = call.settings;
  TrainOptions options;
  options.folder = call.operands[0];
  options.data = settings.get<"data">();
  options.recipe = settings.get<"recipe">();
  options.feature_bytes = settings.get<"feature-cache">();
  DSPARK_TRY(const DType type, dtype_from_name(settings.get<"drafter-type">()));
  DSPARK_TRY(const std::string path, local_model(settings.get<"model">()));
  DSPARK_TRY(const ModelFile file, ModelFile::open(path));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(settings));
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
  DSPARK_RETURN_IF_ERROR(trainer->write(type, trainer->recipe().drafter.lookup ? nullptr : file.gguf()));
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
