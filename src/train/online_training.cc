// See online_training.h.
#include "train/online_training.h"

#include <filesystem>

#include "base/cache_dir.h"
#include "draft/dspark_config.h"

namespace dspark {
namespace {

constexpr int64_t kLeastHeldOut = 8;  // conversations: fewer say nothing

}  // namespace

Result<OnlineResult> train_online(Engine& engine, const OnlineOptions& options,
                                  const std::function<bool(const TrainProgress&)>& report) {
  OnlineResult result;
  DSPARK_RETURN_IF_ERROR(create_folders(options.folder));
  const std::string data = options.folder + "/online.jsonl";
  const std::string drafter = options.folder + "/drafter.gguf", candidate = options.folder + "/candidate.gguf";
  const auto remove = [](const std::string& path) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  };
  if (std::error_code none; std::filesystem::exists(drafter, none)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: is there already, and may be in use; take another folder",
                      drafter);
  }
  // What an interrupted run has left belongs to another log.
  remove(options.folder + "/checkpoint.bin");
  DSPARK_TRY(result.data, write_log_data(options.log, engine.tokenizer(), engine.context(), data));
  if (result.data.conversations == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: no answer to train on ({} other requests); was it recorded with --log-prompts?", options.log,
                      result.data.left_out);
  }
  DSPARK_TRY(const std::unique_ptr<Trainer> trainer,
             Trainer::open(
                 engine, {.folder = options.folder, .data = data, .recipe = options.recipe, .start = options.drafter}));
  result.held_out = std::ssize(trainer->data().held_out);
  if (result.held_out < kLeastHeldOut) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: {} of {} conversations are held out, at least {} are needed to tell which drafter is "
                      "better; wait for a longer log",
                      options.log, result.held_out, result.data.conversations, kLeastHeldOut);
  }
  DSPARK_TRY(const LossSums before, trainer->evaluate());
  bool stopped = false;
  DSPARK_RETURN_IF_ERROR(trainer->run([&](const TrainProgress& now) {
    stopped = !report(now);
    return !stopped;
  }));
  remove(options.folder + "/checkpoint.bin");
  if (stopped) return make_error(ErrorCode::kCancelled, "stopped; nothing is offered");
  // What counts is the file, with its rounding.
  DSPARK_RETURN_IF_ERROR(trainer->write(options.type, nullptr, candidate));
  DSPARK_RETURN_IF_ERROR(trainer->load(candidate));
  DSPARK_TRY(const LossSums after, trainer->evaluate());
  result.steps = trainer->state().step;
  result.tau_before = before.tau();
  result.tau_after = after.tau();
  result.better = result.tau_after > result.tau_before;
  if (!result.better) {
    remove(candidate);
    return result;
  }
  std::error_code failed;
  std::filesystem::rename(candidate, drafter, failed);
  if (failed) return make_error(ErrorCode::kInternal, "{}: {}", drafter, failed.message());
  return result;
}

}  // namespace dspark
