// AnswerStream: many answers of the target at once, through the engine's step loop, with the tokens that ended them.
// The answers are those of the token law: which of them share a step changes none. One thread uses it; the step thread
// fills it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/engine.h"

namespace dspark {

struct GeneratedAnswer {
  uint64_t tag = 0;
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> answer = {};  // with the token that ended it
  bool ended = false;                // by an end token; else the limit cut it
};

class AnswerStream {
 public:
  // At most `slots` answers are asked for at once.
  AnswerStream(Engine& engine, int slots) : engine_(engine), slots_(slots), inbox_(std::make_shared<Inbox>()) {}
  // What is still on its way is cancelled.
  ~AnswerStream();

  bool has_room() const { return asked_.size() < static_cast<size_t>(slots_); }
  size_t active() const { return asked_.size(); }

  // Asks for an answer of up to `max_tokens`; `tag` is the caller's. Errors as StepLoop::submit has them.
  Status add(uint64_t tag, std::vector<int32_t> prompt, const SamplingParams& sampling, int max_tokens);

  // Waits until some are complete, and takes them; an error if the engine failed one of them. Needs active() > 0.
  Result<std::vector<GeneratedAnswer>> take();

 private:
  struct Finished {
    GeneratedAnswer answer;
    Status status;
  };
  struct Inbox {
    std::mutex mutex;
    std::condition_variable filled;
    std::vector<Finished> finished;
  };
  class Collector;

  Engine& engine_;
  int slots_;
  std::shared_ptr<Inbox> inbox_;  // outlives this in the collectors of requests that are being cancelled
  std::vector<std::pair<uint64_t, RequestId>> asked_;
};

}  // namespace dspark
