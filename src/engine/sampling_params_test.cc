// Ranges, and that a message names parameter, value and range.
#include "engine/sampling_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace dspark {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocab = 100;

template <class Change>
std::string error_of(Change change) {
  SamplingParams params;
  change(params);
  const Status status = validate(params, kVocab);
  if (status.ok()) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  return status.error().message;
}

TEST(SamplingParams, TheEndsOfTheRangesAreValid) {
  EXPECT_EQ(error_of([](SamplingParams&) {}), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.temperature = 0; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.temperature = 1e-300; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.temperature = kMaxTemperature; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.top_k = -1; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.top_k = int64_t{1} << 60; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.top_p = 0; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.min_p = 1; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.repetition_penalty = 0.01; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.frequency_penalty = -2; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.logit_bias = {{0, -INFINITY}, {99, 1e30f}}; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.stop_token_ids = {0, 99, 99}; }), "");
  EXPECT_EQ(error_of([](SamplingParams& p) { p.logprobs = kMaxTopLogprobs; }), "");
}

TEST(SamplingParams, ErrorsNameParameterValueAndRange) {
  EXPECT_EQ(error_of([](SamplingParams& p) { p.temperature = -0.5; }),
            "temperature is -0.5, expected 0 to 1000 (0 is greedy)");
  EXPECT_THAT(error_of([](SamplingParams& p) { p.temperature = NAN; }), HasSubstr("temperature is nan"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.temperature = INFINITY; }), HasSubstr("temperature is inf"));
  EXPECT_EQ(error_of([](SamplingParams& p) { p.top_k = -2; }),
            "top_k is -2, expected -1 or more (0 and -1 keep all tokens)");
  EXPECT_THAT(error_of([](SamplingParams& p) { p.top_p = 1.01; }), HasSubstr("top_p is 1.01, expected 0 to 1"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.min_p = -0.01; }), HasSubstr("min_p is -0.01, expected 0 to 1"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.repetition_penalty = 0; }), HasSubstr("repetition_penalty is 0"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.repetition_window = -2; }), HasSubstr("repetition_window is -2"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.presence_penalty = NAN; }), HasSubstr("presence_penalty is nan"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.frequency_penalty = 101; }), HasSubstr("frequency_penalty is 101"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.min_tokens = -1; }),
              HasSubstr("min_tokens is -1, expected 0 or more"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.logprobs = 101; }), HasSubstr("logprobs is 101, expected -1 to 100"));
  EXPECT_EQ(error_of([](SamplingParams& p) {
              p.stop_token_ids = {1, 100};
            }),
            "stop_token_ids names token 100, expected 0 to 99");
  EXPECT_EQ(error_of([](SamplingParams& p) {
              p.logit_bias = {{-1, 0.0f}};
            }),
            "logit_bias names token -1, expected 0 to 99");
  EXPECT_THAT(error_of([](SamplingParams& p) { p.logit_bias = {{5, NAN}}; }), HasSubstr("token 5 is nan"));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.logit_bias = {{5, INFINITY}}; }), HasSubstr("token 5 is inf"));
  EXPECT_EQ(error_of([](SamplingParams& p) {
              p.logit_bias = {{5, 1.0f}, {4, 1.0f}, {5, 2.0f}};
            }),
            "logit_bias names token 5 twice, expected once");
}

}  // namespace
}  // namespace dspark
