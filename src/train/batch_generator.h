// BatchGenerator: many answers of the target at once, each step a row or a piece of a prompt for every sequence. The
// answers are those of the token law: which sequences share a step changes none. One thread, which runs the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/sampler.h"

namespace dspark {

struct GeneratedAnswer {
  uint64_t tag = 0;
  std::vector<int32_t> prompt = {};
  std::vector<int32_t> answer = {};  // with the token that ended it
  bool ended = false;                // by an end token; else the limit cut it
};

class BatchGenerator {
 public:
  // At most `slots` sequences at once; prompts enter `chunk` rows at a time.
  BatchGenerator(Engine& engine, int slots, int chunk);
  ~BatchGenerator();

  bool has_room() const { return active_.size() < static_cast<size_t>(slots_); }
  size_t active() const { return active_.size(); }

  // Queues an answer of up to `max_tokens`; `tag` is the caller's. Needs has_room(). kInvalidArgument for a prompt that
  // is empty or beyond the context.
  Status add(uint64_t tag, std::vector<int32_t> prompt, const SamplingParams& sampling, int max_tokens);

  // One step for all; the answers that it completed.
  Result<std::vector<GeneratedAnswer>> step();

 private:
  struct Active;
  Result<bool> draw(Active& sequence, const float* logits);

  Engine& engine_;
  int slots_;
  int chunk_;
  std::vector<int32_t> end_tokens_;
  DrawScratch scratch_;
  std::vector<std::unique_ptr<Active>> active_;
};

}  // namespace dspark
