// The ranges of sampling parameters.
#include "engine/sampling_params.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace dspark {
namespace {

Status in_range(std::string_view name, double value, double low, double high, std::string_view meaning = "") {
  if (value >= low && value <= high) return Ok{};  // false for NaN
  return make_error(ErrorCode::kInvalidArgument, "{} is {}, expected {} to {}{}", name, value, low, high, meaning);
}

Status at_least(std::string_view name, int64_t value, int64_t low, std::string_view meaning = "") {
  if (value >= low) return Ok{};
  return make_error(ErrorCode::kInvalidArgument, "{} is {}, expected {} or more{}", name, value, low, meaning);
}

Status in_vocabulary(std::string_view name, int32_t token, int64_t vocab) {
  if (token >= 0 && token < vocab) return Ok{};
  return make_error(ErrorCode::kInvalidArgument, "{} names token {}, expected 0 to {}", name, token, vocab - 1);
}

Status validate_bias(const SamplingParams& params, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (const auto& [token, bias] : params.logit_bias) {
    DSPARK_RETURN_IF_ERROR(in_vocabulary("logit_bias", token, vocab));
    if (std::isnan(bias) || bias == std::numeric_limits<float>::infinity()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "logit_bias of token {} is {}, expected a finite number, or -infinity to forbid the token",
                        token, bias);
    }
    tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end());
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice == tokens.end()) return Ok{};
  return make_error(ErrorCode::kInvalidArgument, "logit_bias names token {} twice, expected once", *twice);
}

}  // namespace

bool has_penalty(const SamplingParams& params) {
  return (params.repetition_penalty != 1.0 && params.repetition_window != 0) || params.presence_penalty != 0.0 ||
         params.frequency_penalty != 0.0;
}

Status validate(const SamplingParams& params, int64_t vocab) {
  DSPARK_RETURN_IF_ERROR(in_range("temperature", params.temperature, 0, kMaxTemperature, " (0 is greedy)"));
  DSPARK_RETURN_IF_ERROR(at_least("top_k", params.top_k, -1, " (0 and -1 keep all tokens)"));
  DSPARK_RETURN_IF_ERROR(in_range("top_p", params.top_p, 0, 1, " (1 keeps all tokens)"));
  DSPARK_RETURN_IF_ERROR(in_range("min_p", params.min_p, 0, 1, " (0 keeps all tokens)"));
  DSPARK_RETURN_IF_ERROR(in_range("repetition_penalty", params.repetition_penalty, 0.01, 100, " (1 is none)"));
  DSPARK_RETURN_IF_ERROR(
      at_least("repetition_window", params.repetition_window, -1, " (-1 is all of prompt and output)"));
  DSPARK_RETURN_IF_ERROR(in_range("presence_penalty", params.presence_penalty, -100, 100, " (0 is none)"));
  DSPARK_RETURN_IF_ERROR(in_range("frequency_penalty", params.frequency_penalty, -100, 100, " (0 is none)"));
  DSPARK_RETURN_IF_ERROR(at_least("min_tokens", params.min_tokens, 0));
  DSPARK_RETURN_IF_ERROR(in_range("logprobs", params.logprobs, -1, kMaxTopLogprobs, " (-1 is none)"));
  for (const int32_t token : params.stop_token_ids) {
    DSPARK_RETURN_IF_ERROR(in_vocabulary("stop_token_ids", token, vocab));
  }
  return validate_bias(params, vocab);
}

}  // namespace dspark
