// The token law: which token a row's logits give (docs/sampling.md, docs/numerics.md). A Sampler is constant after it
// is made, so that the rows of one sequence may be drawn on different workers at once, each with its own scratch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/buffer.h"
#include "engine/sampling_params.h"
#include "engine/token_filter.h"
#include "engine/token_history.h"
#include "kernels/ops.h"

namespace dspark {

struct TokenLogprob {
  int32_t token;
  float logprob;
};

struct Draw {
  int32_t token;
  float logprob;  // of the raw logits; NaN where params.logprobs is -1
  // The likeliest tokens of the raw logits, params.logprobs of them; valid until the scratch is used again.
  std::span<const TokenLogprob> top;
};

// One row, whose token is wanted.
struct DrawRow {
  const float* logits;                    // [vocab]; finite or -infinity, else the draw fails
  uint64_t position;                      // of the token in its sequence
  std::span<const int32_t> drafted = {};  // tokens before it that the history does not hold yet
  // Grammar: bit v % 32 of keep[v / 32] is set if token v may come; null: any may. Bits beyond the vocabulary do not
  // count.
  const uint32_t* keep = nullptr;
};

// Working memory of one worker; grows to about 20 bytes for each token of the vocabulary where filters, penalties or
// log-probabilities need it.
class DrawScratch {
 public:
  explicit DrawScratch(const Ops& ops) : filter_(ops) {}

 private:
  friend class Sampler;
  TokenFilter filter_;
  Buffer<float> logits_;  // [vocab], edited
  Buffer<float> maxima_;  // survey of the logits
  Buffer<int32_t> candidates_;
  std::vector<TokenLogprob> top_;
};

class Sampler {
 public:
  // `end_tokens`: the model's own. kInvalidArgument as validate() has it.
  static Result<Sampler> create(const Ops& ops, SamplingParams params, int64_t vocab,
                                std::span<const int32_t> end_tokens);

  // The token of `row`, given the tokens before it. Fails if the logits are broken (kCorrupt) or forbid every token
  // (kInvalidArgument): an error of this request only.
  Result<Draw> draw(const DrawRow& row, const TokenHistory& history, DrawScratch& scratch) const;

  // The log-probabilities of a token that stands there already, as draw() gives them, with the `count` likeliest.
  Result<Draw> score(const DrawRow& row, int32_t token, int32_t count, DrawScratch& scratch) const;

  // True if `token` ends the output: a stop token, or an end token of the model unless ignore_eos is set. The
  // min_tokens rule is draw()'s: before that it draws none of them.
  bool ends(int32_t token) const;

  const SamplingParams& params() const { return params_; }

 private:
  Sampler(const Ops& ops, SamplingParams params, int64_t vocab, std::span<const int32_t> end_tokens);

  std::span<const int32_t> forbidden(const DrawRow& row, const TokenHistory& history) const;
  void edit(const DrawRow& row, const TokenHistory& history, float* logits) const;
  float penalised(float logit, TokenHistory::Counts counts) const;
  Result<Survey> survey(const DrawRow& row, const float* logits, DrawScratch& scratch) const;
  int32_t best_score(const DrawRow& row, const Survey& survey, const Cut& cut, DrawScratch& scratch) const;
  Result<int32_t> choose(const DrawRow& row, const float* logits, DrawScratch& scratch) const;
  Result<int32_t> token(const DrawRow& row, const TokenHistory& history, DrawScratch& scratch) const;
  Status add_logprobs(const DrawRow& row, int32_t count, DrawScratch& scratch, Draw* draw) const;

  const Ops* ops_;
  SamplingParams params_;
  int64_t vocab_;
  bool penalises_;
  std::vector<int32_t> ends_;     // what ends the output, ascending
  std::vector<int32_t> never_;    // with ignore_eos: the model's end tokens
  std::vector<int32_t> not_yet_;  // before min_tokens: ends_ and never_
};

}  // namespace dspark
