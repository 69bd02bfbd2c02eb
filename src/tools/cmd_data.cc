// `dspark data`: answers of the target to many prompts, to train a drafter on. Main thread; the engine's workers
// compute.
#include <fmt/format.h>

#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"
#include "tools/progress.h"
#include "train/data_generator.h"

namespace dspark {
Result<ExitCode> cmd_data(const Invocation& call) {
  const Settings& settings = call.settings;
  if (call.operands[0] != "generate") {
    return make_error(ErrorCode::kInvalidArgument, "data {}: expected generate", call.operands[0]);
  }
  DSPARK_TRY(const PromptSources sources,
             load_prompt_sources(settings.get<"sources">(), settings.get<"data-folder">()));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(settings));
  const InterruptScope interrupt(true);
  DataOptions options;
  options.out = call.operands[1];
  options.model_digest = to_hex(engine->runner().digest());
  options.slots = static_cast<int>(settings.get<"slots">());
  options.max_tokens = static_cast<int>(settings.get<"max-tokens">());
  options.token_target = settings.get<"answer-tokens">();
  Progress progress("answers", ProgressUnit::kTokens, options.token_target);
  DSPARK_TRY(const DataTotals totals, generate_data(*engine, sources, options, [&](const DataTotals& now) {
               progress.update(now.answer_tokens);
               return !interrupt.requested();
             }));
  DSPARK_RETURN_IF_ERROR(write_output(
      fmt::format("{}: {} conversations, {} answer tokens; dropped in this run: {} repeated, {} that overlap with "
                  "evaluation prompts, {} unusable\n",
                  options.out, totals.conversations, totals.answer_tokens, totals.dropped_duplicates,
                  totals.dropped_overlaps, totals.dropped_unusable)));
  return interrupt.requested() ? ExitCode::kInterrupted : ExitCode::kOk;
}

}  // namespace dspark
