// `dspark run`: one answer, or a chat. Main thread; the engine's workers compute.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/log.h"
#include "tools/command.h"
#include "tools/compute.h"
#include "tools/interrupt.h"
#include "tools/io.h"

namespace dspark {
namespace {

GenerateRequest request_of(const Settings& settings) {
  GenerateRequest request;
  request.sampling.temperature = settings.get<"temp">();
  request.sampling.top_k = settings.get<"top-k">();
  request.sampling.top_p = settings.get<"top-p">();
  request.sampling.min_p = settings.get<"min-p">();
  request.sampling.repetition_penalty = settings.get<"repeat-penalty">();
  request.sampling.seed = static_cast<uint64_t>(settings.get<"seed">());
  request.max_tokens = static_cast<int>(settings.get<"max-tokens">());
  request.stop = settings.get<"stop">();
  return request;
}

nlohmann::ordered_json first_messages(const Settings& settings) {
  auto messages = nlohmann::ordered_json::array();
  if (settings.is_set<"system">()) messages.push_back({{"role", "system"}, {"content", settings.get<"system">()}});
  return messages;
}

double per_second(size_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

void print_stats(const Engine& engine, const GenerateResult& result) {
  const int computed = result.prompt_tokens - result.cached_tokens;
  const size_t steps = result.tokens.empty() ? 0 : result.tokens.size() - 1;  // the first token comes from the prompt
  fmt::print(stderr,
             "load {:.2f} s; prompt {} tokens ({} cached) in {:.2f} s, {:.0f} tokens/s; answer {} tokens in {:.2f} s, "
             "{:.1f} tokens/s; finish: {}\n",
             engine.load_seconds(), result.prompt_tokens, result.cached_tokens, result.prompt_seconds,
             per_second(static_cast<size_t>(computed), result.prompt_seconds), result.tokens.size(),
             result.decode_seconds, per_second(steps, result.decode_seconds), finish_reason_name(result.finish));
}

nlohmann::ordered_json as_json(const Engine& engine, const GenerateResult& result) {
  return {{"text", result.text},
          {"tokens", result.tokens},
          {"finish", finish_reason_name(result.finish)},
          {"seed", static_cast<int64_t>(result.seed)},
          {"drafted", result.drafted},
          {"accepted", result.accepted},
          {"prompt_tokens", result.prompt_tokens},
          {"load_seconds", engine.load_seconds()},
          {"prompt_seconds", result.prompt_seconds},
          {"decode_seconds", result.decode_seconds}};
}

// Generates from the conversation so far, streaming to standard output unless `quiet`. Ctrl-C or an output that
// cannot be written ends the answer.
Result<GenerateResult> answer(Engine& engine, const GenerateRequest& request, bool quiet,
                              const InterruptScope& interrupt) {
  Status written = Ok();
  auto result = engine.generate(
      request,
      [&](std::string_view text) {
        if (!quiet && !text.empty()) written = write_output(text);
        return written.ok() && !interrupt.requested();
      },
      [&] { return interrupt.requested(); });
  DSPARK_RETURN_IF_ERROR(written);
  return result;
}

// The same request again, by an engine without drafts and by this one in turn: what guessing brings, and that it
// changes nothing.
struct Comparison {
  static constexpr int kRounds = 3;
  double plain_per_second = 0.0, guessed_per_second = 0.0;  // medians
  double tokens_per_step = 0.0;
  bool identical = true;
};

Result<Comparison> compare(Engine& plain_engine, Engine& engine, const GenerateRequest& request,
                           const GenerateResult& shown, const InterruptScope& interrupt) {
  Comparison out;
  std::array<double, Comparison::kRounds> plain, guessed;
  const size_t steps = std::max<size_t>(1, shown.tokens.size()) - 1;
  for (size_t round = 0; round < Comparison::kRounds; ++round) {
    for (const bool guesses : {false, true}) {
      DSPARK_TRY(const GenerateResult again, answer(guesses ? engine : plain_engine, request, true, interrupt));
      if (again.finish == FinishReason::kCancelled) return make_error(ErrorCode::kCancelled, "stopped");
      (guesses ? guessed : plain)[round] = per_second(steps, again.decode_seconds);
      out.identical = out.identical && again.tokens == shown.tokens;
    }
  }
  std::sort(plain.begin(), plain.end());
  std::sort(guessed.begin(), guessed.end());
  out.plain_per_second = plain[Comparison::kRounds / 2];
  out.guessed_per_second = guessed[Comparison::kRounds / 2];
  const double verified = static_cast<double>(steps) - static_cast<double>(shown.accepted);
  out.tokens_per_step = verified > 0.0 ? static_cast<double>(steps) / verified : 0.0;
  return out;
}

nlohmann::ordered_json as_json(const Comparison& comparison) {
  return {{"plain_tokens_per_second", comparison.plain_per_second},
          {"dspark_tokens_per_second", comparison.guessed_per_second},
          {"tokens_per_step", comparison.tokens_per_step},
          {"identical", comparison.identical}};
}

std::string as_text(const Comparison& comparison, size_t tokens) {
  return fmt::format(
      "\nplain decoding {:>7.0f} tokens/s\nwith DSpark    {:>7.0f} tokens/s   {:.2f}x, {:.2f} tokens a step\n{}\n",
      comparison.plain_per_second, comparison.guessed_per_second,
      comparison.guessed_per_second / std::max(comparison.plain_per_second, 1e-9), comparison.tokens_per_step,
      comparison.identical ? fmt::format("the {} tokens are identical", tokens)
                           : std::string("THE TOKENS DIFFER, which must never happen: please report it"));
}

Result<ExitCode> answer_once(const Settings& settings, Engine& engine, const std::string& prompt) {
  const bool json = settings.get<"json">();
  GenerateRequest request = request_of(settings);
  if (settings.get<"raw">()) {
    request.prompt = engine.tokenizer().encode(prompt, {.threads = engine.runner().pool().size()});
  } else {
    nlohmann::ordered_json messages = first_messages(settings);
    messages.push_back({{"role", "user"}, {"content", prompt}});
    DSPARK_TRY(const std::string rendered, engine.render(messages));
    request.prompt = engine.encode_rendered(rendered);
  }
  std::unique_ptr<Engine> plain;
  if (settings.get<"compare">()) {
    DSPARK_TRY(const EngineOptions options, engine_options(settings));
    DSPARK_TRY(plain, open_engine(without_drafts(options)));
  }
  const InterruptScope interrupt;
  DSPARK_TRY(const GenerateResult result, answer(engine, request, json, interrupt));
  nlohmann::ordered_json report = as_json(engine, result);
  std::string text = "\n";
  bool identical = true;
  if (plain != nullptr && result.finish != FinishReason::kCancelled) {
    DSPARK_TRY(const Comparison comparison, compare(*plain, engine, request, result, interrupt));
    report["compare"] = as_json(comparison);
    text += as_text(comparison, result.tokens.size());
    identical = comparison.identical;
  }
  DSPARK_RETURN_IF_ERROR(json ? write_json(report) : write_output(text));
  if (settings.get<"stats">()) print_stats(engine, result);
  if (!identical) return ExitCode::kFailure;
  return result.finish == FinishReason::kCancelled ? ExitCode::kInterrupted : ExitCode::kOk;
}

// Lines of standard input; Ctrl-C ends the wait for one.
class LineReader {
 public:
  explicit LineReader(const InterruptScope& interrupt) : interrupt_(interrupt) {}

  // The next line without its end; nothing at the end of the input or after Ctrl-C, which drops what was typed.
  std::optional<std::string> next() {
    for (;;) {
      if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return line;
      }
      pollfd wait[] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_.wake_fd(), POLLIN, 0}};
      if (poll(wait, 2, -1) < 0 && errno != EINTR) return std::nullopt;
      if (interrupt_.requested()) {
        buffer_.clear();
        return std::nullopt;
      }
      if (wait[0].revents == 0) continue;
      char bytes[4096];
      const ssize_t got = read(STDIN_FILENO, bytes, sizeof(bytes));
      if (got < 0) return std::nullopt;
      if (got == 0) {
        if (buffer_.empty()) return std::nullopt;
        return std::exchange(buffer_, {});
      }
      buffer_.append(bytes, static_cast<size_t>(got));
    }
  }

 private:
  const InterruptScope& interrupt_;
  std::string buffer_;
};

Result<ExitCode> chat(const Settings& settings, Engine& engine) {
  DSPARK_RETURN_IF_ERROR(write_output("Ctrl-C stops an answer, Ctrl-D leaves.\n"));
  nlohmann::ordered_json messages = first_messages(settings);
  InterruptScope interrupt;
  LineReader input(interrupt);
  for (;;) {
    interrupt.clear();
    DSPARK_RETURN_IF_ERROR(write_output("> "));
    const std::optional<std::string> line = input.next();
    if (!line) {
      DSPARK_RETURN_IF_ERROR(write_output("\n"));
      if (!interrupt.requested()) return ExitCode::kOk;
      continue;  // Ctrl-C at the prompt only drops the line
    }
    if (line->empty()) continue;
    messages.push_back({{"role", "user"}, {"content", *line}});
    GenerateRequest request = request_of(settings);
    auto turn = [&]() -> Result<GenerateResult> {
      DSPARK_TRY(const std::string rendered, engine.render(messages));
      request.prompt = engine.encode_rendered(rendered);
      return answer(engine, request, false, interrupt);
    }();
    if (!turn.ok()) {  // this turn only: too long a prompt, a template that refuses it
      if (turn.error().code != ErrorCode::kInvalidArgument && turn.error().code != ErrorCode::kTooLong)
        return turn.error();
      messages.erase(messages.size() - 1);
      print_error(turn.error().message);
      continue;
    }
    messages.push_back({{"role", "assistant"}, {"content", turn->text}});
    DSPARK_RETURN_IF_ERROR(write_output("\n"));
    if (settings.get<"stats">()) print_stats(engine, *turn);
  }
}

}  // namespace

Result<ExitCode> cmd_run(const Invocation& call) {
  const Settings& settings = call.settings;
  if (settings.is_set<"prompt">() && settings.is_set<"file">()) {
    return make_error(ErrorCode::kInvalidArgument, "--prompt and --file both give the prompt; leave one out");
  }
  const bool given = settings.is_set<"prompt">() || settings.is_set<"file">();
  const bool chats = !given && isatty(STDIN_FILENO) == 1;
  if (chats && (settings.get<"raw">() || settings.get<"json">())) {
    return make_error(ErrorCode::kInvalidArgument, "--raw and --json need a prompt; give one with -p TEXT or -f FILE");
  }
  std::string prompt = settings.get<"prompt">();
  if (!chats && !settings.is_set<"prompt">()) {
    DSPARK_TRY(prompt, read_input(settings.is_set<"file">() ? settings.get<"file">() : "-", kMaxTextBytes));
  }
  DSPARK_TRY(const std::unique_ptr<Engine> engine, open_engine(settings));
  if (!settings.get<"raw">()) warn_without_template(*engine);
  // From here on a warning, such as of a drafter that pauses, would stand in the middle of the answer.
  if (!settings.get<"verbose">()) set_log_level(LogLevel::kError);
  return chats ? chat(settings, *engine) : answer_once(settings, *engine, prompt);
}

}  // namespace dspark
