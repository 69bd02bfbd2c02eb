// See active_request.h.
#include "engine/active_request.h"

#include <algorithm>

#include "base/noise.h"
#include "engine/speculation_stats.h"

namespace dspark {
namespace {

Status check(const Request& request, const RequestLimits& limits) {
  const int64_t length = static_cast<int64_t>(request.prompt.size());
  if (length == 0) return make_error(ErrorCode::kInvalidArgument, "the prompt is empty");
  const bool answers = request.work == Work::kGenerate && request.max_tokens > 0;
  if (length + (answers ? 1 : 0) > limits.context) {
    return make_error(ErrorCode::kTooLong, "the prompt has {} tokens, the context {}; shorten the prompt", length,
                      limits.context);
  }
  if (length + (answers ? 1 : 0) > limits.kv_positions) {
    return make_error(ErrorCode::kExhausted,
                      "the prompt has {} tokens, the KV memory holds {} positions; raise --kv-memory or shorten it",
                      length, limits.kv_positions);
  }
  for (const int32_t token : request.prompt) {
    if (token >= 0 && token < limits.vocab) continue;
    return make_error(ErrorCode::kInvalidArgument, "token {} in the prompt, expected 0 to {}", token, limits.vocab - 1);
  }
  if (request.choices < 1 || request.choices > limits.max_choices) {
    return make_error(ErrorCode::kInvalidArgument, "n is {}, expected 1 to {}; --max-running allows no more",
                      request.choices, limits.max_choices);
  }
  if (request.max_tokens < 0) {
    return make_error(ErrorCode::kInvalidArgument, "max_tokens is {}, expected 0 or more", request.max_tokens);
  }
  if (request.pin && (answers || request.work != Work::kGenerate)) {
    return make_error(ErrorCode::kInvalidArgument, "a prompt whose KV is to be pinned asks for {}, expected nothing",
                      request.work == Work::kGenerate ? "an answer" : "an embedding");
  }
  if (request.prompt_logprobs > kMaxTopLogprobs) {
    return make_error(ErrorCode::kInvalidArgument, "prompt_logprobs is {}, expected 0 to {}", request.prompt_logprobs,
                      kMaxTopLogprobs);
  }
  return Ok{};
}

Pool pool_of(const Request& request) {
  if (request.pool == RequestClass::kShort) return Pool::kShort;
  if (request.pool == RequestClass::kLong) return Pool::kLong;
  return request.prompt.size() <= kLongestShortPrompt ? Pool::kShort : Pool::kLong;
}

int bucket_of(const Request& request) {
  const auto* found = std::ranges::find(kTaskBuckets, request.bucket);
  return found == kTaskBuckets.end() ? 0 : static_cast<int>(found - kTaskBuckets.begin());
}

}  // namespace

Branch::Branch(ActiveRequest* owner, int index, uint64_t plan_id, Sampler draw, const Tokenizer& tokenizer)
    : request(owner),
      choice(index),
      id(plan_id),
      sampler(std::move(draw)),
      history(sampler.params(), owner->request.prompt),
      decoder(tokenizer, {}),
      matcher(owner->request.stop, owner->request.include_stop_text),
      tokens(owner->request.prompt) {}

int ActiveRequest::max_cached(const Branch& branch) const {
  const int all = static_cast<int>(branch.tokens.size()) - 1;
  if (request.work == Work::kEmbed && request.pooling == Pooling::kMean) return pooled_rows;
  if (wants_prompt_logprobs() && !answered) return std::min(all, static_cast<int>(prompt_logprobs.size()));
  return all;
}

Result<std::unique_ptr<ActiveRequest>> make_active(Request request, std::shared_ptr<RequestListener> listener,
                                                   const RequestLimits& limits, const Ops& ops,
                                                   const Tokenizer& tokenizer, std::span<const int32_t> end_tokens) {
  DSPARK_RETURN_IF_ERROR(check(request, limits));
  auto active = std::make_unique<ActiveRequest>();
  active->request = std::move(request);
  active->listener = std::move(listener);
  active->submitted = ActiveRequest::Clock::now();
  const Request& held = active->request;
  active->pool = pool_of(held);
  active->bucket = bucket_of(held);
  active->open_choices = held.work == Work::kEmbed ? 1 : held.choices;
  for (int i = 0; i < active->open_choices; ++i) {
    SamplingParams params = held.sampling;
    params.seed = choice_seed(held.sampling.seed, static_cast<uint64_t>(i));
    DSPARK_TRY(Sampler sampler, Sampler::create(ops, std::move(params), limits.vocab, end_tokens));
    active->choices.push_back(
        std::make_unique<Branch>(active.get(), i, static_cast<uint64_t>(i), std::move(sampler), tokenizer));
  }
  active->stats.prompt_tokens = active->prompt_length();
  return active;
}

}  // namespace dspark
