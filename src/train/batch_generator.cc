// See batch_generator.h.
#include "train/batch_generator.h"

#include <algorithm>

namespace dspark {

struct BatchGenerator::Active {
  Active(Sampler drawn_by, TokenHistory so_far, SequenceKv memory, int limit)
      : sampler(std::move(drawn_by)), history(std::move(so_far)), kv(std::move(memory)), max_tokens(limit) {}

  GeneratedAnswer out;
  Sampler sampler;
  TokenHistory history;
  SequenceKv kv;
  int max_tokens;

  int32_t token_at(size_t position) const {
    return position < out.prompt.size() ? out.prompt[position] : out.answer[position - out.prompt.size()];
  }
  size_t tokens() const { return out.prompt.size() + out.answer.size(); }
};

BatchGenerator::BatchGenerator(Engine& engine, int slots, int chunk)
    : engine_(engine), slots_(slots), chunk_(chunk), scratch_(engine.runner().ops()) {
  for (int32_t id = 0; id < engine.tokenizer().size(); ++id) {
    if (engine.tokenizer().is_end_of_generation(id)) end_tokens_.push_back(id);
  }
}

BatchGenerator::~BatchGenerator() = default;

Status BatchGenerator::add(uint64_t tag, std::vector<int32_t> prompt, const SamplingParams& sampling, int max_tokens) {
  DSPARK_CHECK(has_room(), "{} sequences are active", active_.size());
  const int room = engine_.context() - static_cast<int>(prompt.size());
  if (prompt.empty() || room <= 0) {
    return make_error(ErrorCode::kInvalidArgument, "a prompt of {} tokens, expected 1 to {}", prompt.size(),
                      engine_.context() - 1);
  }
  DSPARK_TRY(Sampler sampler, Sampler::create(engine_.runner().ops(), sampling, engine_.config().vocab, end_tokens_));
  TokenHistory history(sampling, prompt);
  active_.push_back(std::make_unique<Active>(std::move(sampler), std::move(history), engine_.runner().new_sequence(),
                                             std::min(max_tokens, room)));
  active_.back()->out.tag = tag;
  active_.back()->out.prompt = std::move(prompt);
  return Ok{};
}

// The sequence's next token; true if its answer is complete.
Result<bool> BatchGenerator::draw(Active& sequence, const float* logits) {
  DSPARK_TRY(const Draw draw, sequence.sampler.draw({logits, sequence.tokens()}, sequence.history, scratch_));
  sequence.out.answer.push_back(draw.token);
  sequence.history.append(draw.token);
  sequence.out.ended = sequence.sampler.ends(draw.token);
  return sequence.out.ended || static_cast<int>(sequence.out.answer.size()) == sequence.max_tokens;
}

Result<std::vector<GeneratedAnswer>> BatchGenerator::step() {
  std::vector<GeneratedAnswer> done;
  if (active_.empty()) return done;
  std::vector<RunRow> rows;
  std::vector<Active*> drawing;
  int prompt_rows = chunk_;
  for (const auto& sequence : active_) {
    const size_t first = static_cast<size_t>(sequence->kv.length());
    const size_t rest = sequence->tokens() - first;
    const size_t count = sequence->out.answer.empty() ? std::min(rest, static_cast<size_t>(prompt_rows)) : rest;
    if (sequence->out.answer.empty()) prompt_rows -= static_cast<int>(count);
    for (size_t i = 0; i < count; ++i) {
      rows.push_back({&sequence->kv, sequence->token_at(first + i), first + i + 1 == sequence->tokens()});
    }
    if (count > 0 && count == rest) drawing.push_back(sequence.get());
  }
  DSPARK_TRY(const StepOutput out, engine_.runner().run(rows));
  const size_t vocab = static_cast<size_t>(engine_.config().vocab);
  for (size_t i = 0; i < drawing.size(); ++i) {
    DSPARK_TRY(const bool complete, draw(*drawing[i], out.logits + i * vocab));
    if (!complete) continue;
    done.push_back(std::move(drawing[i]->out));
    std::erase_if(active_, [&](const auto& sequence) { return sequence.get() == drawing[i]; });
  }
  return done;
}

}  // namespace dspark
