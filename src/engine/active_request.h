// ActiveRequest: a request inside the engine, from submit to its end, with its choices. Made on the caller's thread,
// then the step thread's; the workers draw the tokens of its branches.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "engine/token_history.h"
#include "kvcache/kv_cache.h"
#include "schedule/schedule.h"
#include "text/stream_decoder.h"

namespace dspark {

struct ActiveRequest;

// A sequence of a request: one choice of its answer. Choice 0 also carries the prompt, the others begin as its copies.
struct Branch {
  enum class State { kUnborn, kWaiting, kRunning, kEnded };

  Branch(ActiveRequest* owner, int index, uint64_t plan_id, Sampler draw, const Tokenizer& tokenizer);

  // Tokens whose KV is still to be computed.
  int pending() const { return static_cast<int>(tokens.size()) - kv.length(); }
  // Its answer has begun, and only its last token is to be computed.
  bool decodes() const { return state == State::kRunning && output > 0 && pending() == 1; }

  ActiveRequest* request;
  int choice;
  uint64_t id;  // in plans
  State state = State::kUnborn;
  Sampler sampler;
  TokenHistory history;
  StreamDecoder decoder;
  StopMatcher matcher;
  std::vector<int32_t> tokens;   // of the prompt and the answer
  int output = 0;                // of those, of the answer
  std::vector<int32_t> drafted;  // guesses at what follows, to be verified in this step
  KvPrefix prefix;               // what it waits with; kept for the cache's statistics
  int cached = 0;                // positions of it that the cache had when last asked
  bool opened = false;           // it has run before
  SequenceKv kv;
  int draft_begin = 0;  // from this position on, the drafter's KV is there; at the beginning of a block
  int overtaken = 0;
};

// The first position of a block at or behind this one: where the drafter's KV is whole again behind a gap. Not the
// gap's end itself: the rest of its block may be exchanged for an equal one of somebody else's that lacks it.
inline int next_block(int position) { return (position + kTilePositions - 1) / kTilePositions * kTilePositions; }

// What was drawn, for as long as the step lasts.
struct DrawnToken {
  int32_t token = 0;
  float logprob = 0.0f;
  std::vector<LogprobEntry> top;
};

struct ActiveRequest {
  using Clock = std::chrono::steady_clock;

  int prompt_length() const { return static_cast<int>(request.prompt.size()); }
  bool generates() const { return request.work == Work::kGenerate && request.max_tokens > 0; }
  bool wants_prompt_logprobs() const { return request.prompt_logprobs >= 0; }
  // Positions of a branch that may come from the cache: those whose rows give nothing that is asked for.
  int max_cached(const Branch& branch) const;

  RequestId id = 0;
  Request request;
  std::shared_ptr<RequestListener> listener;
  Pool pool = Pool::kShort;
  int bucket = 0;  // kind of task: index of Request::bucket among the known ones, 0 for others
  std::vector<std::unique_ptr<Branch>> choices;
  int open_choices = 0;
  bool answered = false;  // the prompt is computed, the first tokens are out
  bool ended = false;

  std::vector<PromptLogprob> prompt_logprobs;  // of tokens 1 and on, as far as they are known
  std::vector<double> pooled;                  // sum of the final states, in the order of the positions
  int pooled_rows = 0;

  RequestStats stats;
  Clock::time_point submitted, started, first_token;
};

// Checks what can be checked before the request runs, and makes its branches. See Serving::submit for the errors.
struct RequestLimits {
  int64_t vocab = 0;
  int context = 0;
  int max_choices = 0;
  int64_t kv_positions = 0;  // of the whole cache
};
Result<std::unique_ptr<ActiveRequest>> make_active(Request request, std::shared_ptr<RequestListener> listener,
                                                   const RequestLimits& limits, const Ops& ops,
                                                   const Tokenizer& tokenizer, std::span<const int32_t> end_tokens);

}  // namespace dspark
