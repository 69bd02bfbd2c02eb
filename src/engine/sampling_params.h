// What a request may ask of the draw of its tokens, and the check of it (docs/sampling.md). Plain data, any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dspark {

struct SamplingParams {
  double temperature = 1.0;  // 0: always the likeliest token
  int64_t top_k = 0;         // keep the k likeliest tokens; 0 and -1: all
  double top_p = 1.0;        // keep the likeliest tokens until their probabilities reach it; 1: all
  double min_p = 0.0;        // keep tokens at least this times as likely as the likeliest; 0: all

  double repetition_penalty = 1.0;  // on tokens of prompt and output: divides logits > 0, multiplies the others
  int64_t repetition_window = -1;   // how many of the newest tokens it looks at; -1: all, 0: none
  double presence_penalty = 0.0;    // subtracted once from tokens of the output
  double frequency_penalty = 0.0;   // subtracted once for each time a token stands in the output
  std::vector<std::pair<int32_t, float>> logit_bias;  // (token, added); -infinity forbids the token

  uint64_t seed = 0;                    // of this choice (choice_seed in base/noise.h)
  int64_t min_tokens = 0;               // no end token before this many output tokens
  std::vector<int32_t> stop_token_ids;  // end the output, besides the model's end tokens
  bool ignore_eos = false;              // the model's end tokens are never drawn
  int32_t logprobs = -1;                // how many top log-probabilities with each token; -1: none, not even its own
};

inline constexpr double kMaxTemperature = 1000.0;
inline constexpr int32_t kMaxTopLogprobs = 100;

// True if tokens that already stand in the sequence change the logits.
bool has_penalty(const SamplingParams& params);

// kInvalidArgument with the parameter's name, the value and the range. Token ids are checked against `vocab`.
Status validate(const SamplingParams& params, int64_t vocab);

}  // namespace dspark
