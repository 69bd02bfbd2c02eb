// See engine.h.
#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/exact_math.h"
#include "base/sha256.h"
#include "engine/model_text.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "text/stream_decoder.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The bits of all logits, NaN in one form.
void add_bits(const float* logits, size_t count, Sha256* digest) {
  std::vector<float> canonical(logits, logits + count);
  for (float& x : canonical) x = x == x ? x : std::numeric_limits<float>::quiet_NaN();
  digest->update({reinterpret_cast<const uint8_t*>(canonical.data()), count * sizeof(float)});
}

// log softmax(logits)[token]; NaN where a logit is NaN. `maxima` is scratch.
double log_probability(const Ops& ops, const float* logits, int64_t vocab, int32_t token, Buffer<float>* maxima) {
  maxima->ensure(static_cast<size_t>(survey_size(vocab)));
  if (!ops.survey(logits, vocab, maxima->data())) return std::numeric_limits<double>::quiet_NaN();
  const float max = (*maxima)[static_cast<size_t>(ops.argmax(maxima->data(), survey_size(vocab)))];
  const float lowest = -std::numeric_limits<float>::infinity();
  const int64_t sum = ops.exp_sum(logits, maxima->data(), vocab, max, 1.0f, lowest);
  constexpr double kLogTwo = 0x1.62e42fefa39efp-1;
  const double log_sum = exact_log(static_cast<double>(sum)) - kWeightBits * kLogTwo;
  return static_cast<double>(logits[token]) - static_cast<double>(max) - log_sum;
}

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "?";
}

Engine::Engine(std::unique_ptr<Runner> runner, Tokenizer tokenizer, ChatTemplate chat_template, int context, int chunk)
    : runner_(std::move(runner)),
      tokenizer_(std::move(tokenizer)),
      template_(std::move(chat_template)),
      context_(context),
      chunk_(chunk) {
  for (int32_t id = 0; id < tokenizer_.size(); ++id) {
    if (tokenizer_.is_end_of_generation(id)) end_tokens_.push_back(id);
  }
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  const auto start = Clock::now();
  DSPARK_TRY(const ModelFile file, ModelFile::open(options.model));
  DSPARK_TRY(Tokenizer tokenizer, load_tokenizer(file));
  DSPARK_TRY(ChatTemplate chat_template, load_chat_template(file));
  DSPARK_TRY(std::unique_ptr<Runner> runner, Runner::create(file, options.runner));
  if (tokenizer.size() > runner->config().vocab) {
    return make_error(ErrorCode::kCorrupt, "{}: the tokenizer has {} tokens, the model only {}", options.model,
                      tokenizer.size(), runner->config().vocab);
  }
  const int trained = runner->config().context;
  if (options.context > trained) {
    return make_error(ErrorCode::kInvalidArgument, "context {} is beyond the {} positions of this model",
                      options.context, trained);
  }
  const int context = options.context > 0 ? options.context : trained;
  std::unique_ptr<Engine> engine(new Engine(std::move(runner), std::move(tokenizer), std::move(chat_template), context,
                                            std::max(1, options.prompt_chunk)));
  engine->load_seconds_ = seconds_since(start);
  return engine;
}

Result<std::string> Engine::render(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools) const {
  ChatInput input;
  DSPARK_TRY(input.messages, adapt_content(messages, template_.content_style()));
  input.tools = tools;
  if (tokenizer_.bos() >= 0) input.bos_token = tokenizer_.piece(tokenizer_.bos());
  if (tokenizer_.eos() >= 0) input.eos_token = tokenizer_.piece(tokenizer_.eos());
  return template_.render(input);
}

std::vector<int32_t> Engine::encode_rendered(std::string_view prompt) const {
  std::vector<int32_t> ids = tokenizer_.encode(prompt, {.threads = runner_->pool().size()});
  if (tokenizer_.adds_bos() && ids.size() >= 2 && ids[0] == tokenizer_.bos() && ids[1] == tokenizer_.bos()) {
    ids.erase(ids.begin());
  }
  return ids;
}

Status Engine::check_request(const GenerateRequest& request) const {
  if (request.prompt.empty()) return make_error(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (static_cast<int64_t>(request.prompt.size()) >= context_) {
    return make_error(ErrorCode::kInvalidArgument, "the prompt has {} tokens, the context {}; shorten the prompt",
                      request.prompt.size(), context_);
  }
  for (int32_t token : request.prompt) {
    if (token < 0 || token >= config().vocab) {
      return make_error(ErrorCode::kInvalidArgument, "token {} in the prompt, expected 0 to {}", token,
                        config().vocab - 1);
    }
  }
  return Ok{};
}

// Brings the conversation to `prompt` and returns the logits behind its last token.
Result<const float*> Engine::prefill(Conversation& conversation, const std::vector<int32_t>& prompt) {
  const auto [old_end, new_end] =
      std::mismatch(conversation.tokens.begin(), conversation.tokens.end(), prompt.begin(), prompt.end());
  // The last token runs again even if all is cached: its logits are wanted.
  const size_t kept = std::min(static_cast<size_t>(new_end - prompt.begin()), prompt.size() - 1);
  runner_->truncate(conversation.sequence, static_cast<int>(kept));
  conversation.tokens.resize(kept);
  std::vector<RunRow> rows;
  StepOutput out = {};
  for (size_t first = kept; first < prompt.size(); first += static_cast<size_t>(chunk_)) {
    rows.clear();
    const size_t end = std::min(prompt.size(), first + static_cast<size_t>(chunk_));
    for (size_t i = first; i < end; ++i) rows.push_back({&conversation.sequence, prompt[i], i + 1 == prompt.size()});
    DSPARK_TRY(out, runner_->run(rows));
    conversation.tokens.insert(conversation.tokens.end(), prompt.begin() + static_cast<int64_t>(first),
                               prompt.begin() + static_cast<int64_t>(end));
  }
  return out.logits;
}

Result<const float*> Engine::decode(Conversation& conversation, int32_t token) {
  const RunRow row = {&conversation.sequence, token, true};
  DSPARK_TRY(const StepOutput out, runner_->run({&row, 1}));
  conversation.tokens.push_back(token);
  return out.logits;
}

Result<GenerateResult> Engine::generate(Conversation& conversation, const GenerateRequest& request,
                                        const TokenCallback& on_text) {
  DSPARK_RETURN_IF_ERROR(check_request(request));
  DSPARK_TRY(const Sampler sampler, Sampler::create(runner_->ops(), request.sampling, config().vocab, end_tokens_));
  TokenHistory history(request.sampling, request.prompt);
  DrawScratch scratch(runner_->ops());
  GenerateResult result;
  result.seed = request.sampling.seed;
  result.prompt_tokens = static_cast<int>(request.prompt.size());
  StreamDecoder decoder(tokenizer_, {});
  StopMatcher matcher(request.stop);
  auto show = [&](const std::string& text) {
    result.text += text;
    return on_text == nullptr || on_text(text);
  };

  const auto prompt_start = Clock::now();
  const size_t held = conversation.tokens.size();
  DSPARK_TRY(const float* logits, prefill(conversation, request.prompt));
  result.cached_tokens = static_cast<int>(std::min(held, request.prompt.size() - 1));
  result.prompt_seconds = seconds_since(prompt_start);
  const auto decode_start = Clock::now();
  const int room = std::min(request.max_tokens, context_ - result.prompt_tokens);
  result.finish = FinishReason::kLength;
  for (int i = 0; i < room; ++i) {
    const DrawRow row = {logits, static_cast<uint64_t>(conversation.sequence.length)};
    DSPARK_TRY(const Draw draw, sampler.draw(row, history, scratch));
    if (sampler.ends(draw.token)) {
      result.finish = FinishReason::kStop;
      break;
    }
    result.tokens.push_back(draw.token);
    history.append(draw.token);
    const bool wanted = show(matcher.push(decoder.push(draw.token)));
    if (matcher.stopped() || !wanted) {
      result.finish = wanted ? FinishReason::kStop : FinishReason::kCancelled;
      break;
    }
    if (i + 1 == room) break;
    DSPARK_TRY(logits, decode(conversation, draw.token));
  }
  if (!matcher.stopped()) show(matcher.push(decoder.flush()) + matcher.flush());
  result.decode_seconds = seconds_since(decode_start);
  return result;
}

void Engine::forget(Conversation& conversation) {
  runner_->truncate(conversation.sequence, 0);
  conversation.tokens.clear();
}

Result<ScoreResult> Engine::score(std::span<const int32_t> tokens, const ScoreOptions& options,
                                  const std::function<void(size_t done)>& progress) {
  ScoreResult result;
  Sha256 digest;
  Buffer<float> maxima;
  const size_t vocab = static_cast<size_t>(config().vocab);
  const size_t window = static_cast<size_t>(std::min(options.window, context_));
  Sequence sequence;
  double total = 0.0;
  std::vector<RunRow> rows;
  for (size_t start = 0; start < tokens.size(); start += window) {
    const size_t end = std::min(tokens.size(), start + window);
    for (size_t first = start; first < end; first += static_cast<size_t>(options.chunk)) {
      const size_t last = std::min(end, first + static_cast<size_t>(options.chunk));
      rows.clear();
      for (size_t i = first; i < last; ++i) rows.push_back({&sequence, tokens[i], true});
      DSPARK_TRY(const StepOutput out, runner_->run(rows));
      for (size_t i = first; i < last; ++i) {
        const float* logits = out.logits + (i - first) * vocab;
        add_bits(logits, vocab, &digest);
        if (i + 1 == end) continue;
        result.log_probs.push_back(
            log_probability(runner_->ops(), logits, static_cast<int64_t>(vocab), tokens[i + 1], &maxima));
        total += result.log_probs.back();
      }
      if (progress) progress(last);
    }
    runner_->truncate(sequence, 0);
  }
  result.perplexity = exact_exp(-total / static_cast<double>(std::max<size_t>(1, result.log_probs.size())));
  result.digest = to_hex(digest.finish());
  return result;
}

}  // namespace dspark
