// Counts against counting, for random sequences, windows and drafts.
#include "engine/token_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace dspark {
namespace {

using Tokens = std::vector<int32_t>;

Tokens random_tokens(std::mt19937& random, int most, int vocab) {
  Tokens out(random() % static_cast<unsigned>(most + 1));
  for (int32_t& token : out) token = static_cast<int32_t>(random() % static_cast<unsigned>(vocab));
  return out;
}

TokenHistory::Counts naive(const Tokens& prompt, const Tokens& output, int64_t window, int32_t token) {
  Tokens all = prompt;
  all.insert(all.end(), output.begin(), output.end());
  if (window >= 0 && static_cast<int64_t>(all.size()) > window) all.erase(all.begin(), all.end() - window);
  return {std::count(all.begin(), all.end(), token), std::count(output.begin(), output.end(), token)};
}

TEST(TokenHistory, CountsAsCountingDoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int vocab = round % 3 == 0 ? 5 : 300;
    SamplingParams params;
    params.repetition_penalty = 1.5;
    params.presence_penalty = 0.5;
    params.repetition_window = static_cast<int64_t>(random() % 40) - 1;
    const Tokens prompt = random_tokens(random, 60, vocab), drafted = random_tokens(random, 12, vocab);
    Tokens output = random_tokens(random, 60, vocab);
    TokenHistory history(params, prompt);
    for (const int32_t token : output) history.append(token);
    ASSERT_EQ(history.output_size(), static_cast<int64_t>(output.size()));
    std::set<int32_t> listed;
    for (const auto& entry : history.entries()) {
      ASSERT_TRUE(listed.insert(entry.token).second);
      const auto expected = naive(prompt, output, params.repetition_window, entry.token);
      ASSERT_EQ(entry.counts.in_window, expected.in_window);
      ASSERT_EQ(entry.counts.in_output, expected.in_output);
    }
    const auto old = history.leaving(static_cast<int64_t>(drafted.size()));
    Tokens longer = output;
    longer.insert(longer.end(), drafted.begin(), drafted.end());
    for (int32_t token = 0; token < vocab; ++token) {
      const auto before = naive(prompt, output, params.repetition_window, token);
      const auto after = naive(prompt, longer, params.repetition_window, token);
      const auto counts = history.counts(token, drafted);
      ASSERT_EQ(counts.in_window, after.in_window) << "window " << params.repetition_window;
      ASSERT_EQ(counts.in_output, after.in_output);
      ASSERT_EQ(history.counts(token).in_window, before.in_window);
      ASSERT_TRUE(listed.contains(token) || before.in_window + before.in_output == 0);
      // Only drafted and leaving tokens change: the sampler relies on it.
      const bool may_change =
          std::count(drafted.begin(), drafted.end(), token) > 0 || std::count(old.begin(), old.end(), token) > 0;
      ASSERT_TRUE(may_change || before.in_window == after.in_window);
    }
  }
}

TEST(TokenHistory, WithoutPenaltiesOnlyTheLengthIsKept) {
  const Tokens prompt = {1, 2, 3};
  TokenHistory history(SamplingParams{}, prompt);
  history.append(7);
  EXPECT_EQ(history.output_size(), 1);
  EXPECT_TRUE(history.entries().empty());
  EXPECT_EQ(history.counts(7).in_output, 0);
}

TEST(TokenHistory, OutputPenaltiesIgnoreThePrompt) {
  SamplingParams params;
  params.presence_penalty = 1.0;
  const Tokens prompt = {1, 2, 3};
  TokenHistory history(params, prompt);
  EXPECT_TRUE(history.entries().empty());
  history.append(3);
  EXPECT_EQ(history.counts(3).in_output, 1);
  EXPECT_EQ(history.counts(3).in_window, 0);
  EXPECT_EQ(history.counts(3, Tokens{3, 3, 4}).in_output, 3);
}

}  // namespace
}  // namespace dspark
