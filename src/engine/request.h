// What a caller asks of the engine and what it hears back, for every way in: the command, the C++ interface and the
// server. Plain data; a request belongs to the engine once it is submitted.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/sampling_params.h"

namespace dspark {

using RequestId = uint64_t;

enum class FinishReason { kStop, kLength, kCancelled };
const char* finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled"

// Of which share of a step a request takes, where the server has pools (--pool).
enum class RequestClass { kByLength, kShort, kLong };

enum class Work { kGenerate, kEmbed };

enum class Pooling { kMean, kLast };

struct Request {
  Work work = Work::kGenerate;
  std::vector<int32_t> prompt;
  SamplingParams sampling;        // its seed is choice 0's; choice i has choice_seed(seed, i) (base/noise.h)
  int choices = 1;                // answers to the one prompt
  int max_tokens = 256;           // of each; the context is a limit of its own
  std::vector<std::string> stop;  // texts that end the answer and are not part of it
  bool include_stop_text = false;
  int prompt_logprobs = -1;  // how many top log-probabilities with each token of the prompt; -1: none at all
  Pooling pooling = Pooling::kMean;
  int draft_tokens = -1;  // guesses verified in a step at most; 0: none, -1: as the engine plans
  bool pin = false;       // keep the KV of the prompt for ever, as far as KvCache allows; with max_tokens 0

  std::string tenant;      // of the server's own knowledge; prefixes are shared within one tenant and salt only
  std::string cache_salt;  // the caller's, besides the tenant
  std::string bucket;      // task: "code", "json", "math", "chat", "other"
  RequestClass pool = RequestClass::kByLength;
  int priority = 0;  // higher goes first
  std::optional<std::chrono::steady_clock::time_point> deadline = {};
};

struct LogprobEntry {
  int32_t token;
  float logprob;
};

// One token of an answer. Its text may be empty: half a character, or held back while it may become a stop text.
struct TokenEvent {
  int choice = 0;
  int32_t token = 0;
  std::string_view text;
  float logprob = 0.0f;               // of the raw logits; only where logprobs were asked for
  std::span<const LogprobEntry> top;  // params.logprobs of them
  bool drafted = false;               // a drafter had guessed it
};

struct ChoiceEnd {
  int choice = 0;
  FinishReason reason = FinishReason::kStop;
  std::string_view text;  // what was held back
  // What stopped it: an index into Request::stop, or a token id; neither for the model's own end token.
  std::optional<int> stop_text = {};
  std::optional<int32_t> stop_token = {};
  std::optional<int32_t> end_token = {};  // the token that ended it, the model's own or one that was asked for
  uint64_t seed = 0;
};

// Counts and times of a whole request.
struct RequestStats {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, whose KV was already there
  int output_tokens = 0;  // of all choices, those that ended them not counted
  int64_t drafted = 0, accepted = 0;
  int preemptions = 0;
  double queue_seconds = 0.0;    // until its first row was planned
  double prefill_seconds = 0.0;  // from there to the first token
  double decode_seconds = 0.0;   // from there to the last
};

struct PromptLogprob {
  float logprob;
  std::vector<LogprobEntry> top;
};

// Called on the step thread, in order, and never after on_end: it must not block or throw. A server copies what it
// gets to its own threads.
class RequestListener {
 public:
  virtual ~RequestListener() = default;
  // The prompt is computed. One entry for each of its tokens but the first, where prompt_logprobs were asked for.
  virtual void on_prompt(const RequestStats&, std::span<const PromptLogprob>) {}
  // False cancels the whole request.
  virtual bool on_token(const TokenEvent& event) = 0;
  virtual void on_choice_end(const ChoiceEnd& end) = 0;
  virtual void on_embedding(std::span<const float>) {}
  // Behind all calls for all requests of a step and the plan of the next, unless the request has ended: the time to
  // wake who reads, whose work then overlaps that step.
  virtual void on_step_end() {}
  // The last call: Ok, or why the request failed. kCancelled, kDeadline, kExhausted, kCorrupt (broken weights), ...
  virtual void on_end(const Status& status, const RequestStats& stats) = 0;
};

// What the server stands on: the engine's step loop, or a stand-in of the tests.
class Serving {
 public:
  virtual ~Serving() = default;
  // Checks the request and queues it. Any thread. kInvalidArgument for what can never run; kTooLong with both numbers
  // in the message for a prompt beyond the context; kBusy when the queue is full; kUnavailable while draining.
  virtual Result<RequestId> submit(Request request, std::shared_ptr<RequestListener> listener) = 0;
  // Ends a request with kCancelled at the next step boundary; does nothing if it has ended. Any thread.
  virtual void cancel(RequestId id) = 0;
};

}  // namespace dspark
