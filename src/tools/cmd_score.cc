// `dspark score`: how likely a model finds a text, and the digest of all its logits. Main thread and workers.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/compute.h"
#include "tools/io.h"
#include "tools/progress.h"

namespace dspark {

Result<ExitCode> cmd_score(const Invocation& call) {
  const Settings& settings = call.settings;
  if (!settings.is_set<"file">()) {
    return make_error(ErrorCode::kInvalidArgument, "no text to score; name it with --file FILE, - for standard input");
  }
  DSPARK_TRY(const std::string text, read_input(settings.get<"file">(), kMaxTextBytes));
  DSPARK_TRY(const EngineOptions asked, engine_options(settings));
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(without_drafts(asked)));
  const std::vector<int32_t> tokens =
      engine->tokenizer().encode(text, {.parse_special = false, .threads = engine->runner().pool().size()});
  if (tokens.size() < 2) {
    return make_error(ErrorCode::kInvalidArgument, "the text has {} tokens, expected at least 2", tokens.size());
  }
  const ScoreOptions options = {.window = static_cast<int>(settings.get<"window">()),
                                .chunk = static_cast<int>(settings.get<"chunk">())};
  ScoreResult score;
  {
    Progress progress("score", ProgressUnit::kTokens, static_cast<int64_t>(tokens.size()));
    DSPARK_TRY(score,
               engine->score(tokens, options, [&](size_t done) { progress.update(static_cast<int64_t>(done)); }));
  }
  if (settings.get<"json">()) {
    DSPARK_RETURN_IF_ERROR(write_json({{"tokens", tokens},
                                       {"log_probs", score.log_probs},
                                       {"perplexity", score.perplexity},
                                       {"digest", score.digest},
                                       {"window", options.window},
                                       {"chunk", options.chunk},
                                       {"threads", engine->runner().pool().size()},
                                       {"isa", isa_name(engine->runner().isa())}}));
  } else {
    DSPARK_RETURN_IF_ERROR(
        write_output(fmt::format("tokens      {}\nscored      {}\nperplexity  {:.4f}\ndigest      {}\n", tokens.size(),
                                 score.log_probs.size(), score.perplexity, score.digest)));
  }
  return ExitCode::kOk;
}

}  // namespace dspark
