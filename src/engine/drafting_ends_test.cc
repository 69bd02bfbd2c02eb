// Where answers end while drafts go on: stop texts, end tokens and limits inside a block of drafted tokens, penalties
// over drafted tokens, and a batch in which everybody is different. Everything must be as without drafts. On tiny
// models. Test thread.
#include <gtest/gtest.h>

#include <atomic>

#include "engine/loop_harness.h"

namespace dspark {
namespace {

const std::string kTarget = DSPARK_TEST_DATA "/models/qwen3/qwen3.gguf";

LoopSetting plain() {
  LoopSetting setting;
  setting.loop.check_accounting = true;
  return setting;
}

// Drafts seven tokens of answers that are known, right up to and beyond their end.
LoopSetting knowing(const KnownAnswers& known) {
  LoopSetting setting = plain();
  setting.loop.speculation.fixed = 7;
  setting.loop.drafters = {
      std::make_shared<ScriptedDrafter>([&known](std::span<const int32_t> tokens) { return known.after(tokens); })};
  return setting;
}

Request seeded_request(int tokens) {
  Request request;
  request.prompt = {5, 17, 40, 41, 42, 60};
  request.sampling.temperature = 1.2;
  request.sampling.seed = 11;
  request.sampling.logprobs = 2;
  request.sampling.ignore_eos = true;
  request.max_tokens = tokens;
  return request;
}

class DraftingEnds : public testing::Test {
 protected:
  DraftingEnds() {
    LoopUnderTest alone(kTarget, plain());
    whole_ = alone.run(seeded_request(60));
    known_.add(seeded_request(60).prompt, whole_.choices[0].tokens);
  }
  const std::vector<int32_t>& answer() const { return whole_.choices[0].tokens; }

  // The request with drafts that reach beyond its end, and without drafts. Its draft runs into the end: of the tokens
  // but the first, all were drafted.
  Outcome expect_as_plain(const Request& request, int context = 0) {
    LoopSetting without = plain(), with = knowing(known_);
    without.loop.context = with.loop.context = context;
    LoopUnderTest alone(kTarget, without), drafting(kTarget, with);
    const auto expected = alone.start(request), got = drafting.start(request);
    EXPECT_TRUE(got->wait() == expected->wait());
    EXPECT_EQ(got->stats().output_tokens, expected->stats().output_tokens);
    EXPECT_GT(got->stats().accepted, got->stats().output_tokens / 2);
    alone.expect_idle();
    drafting.expect_idle();
    EXPECT_EQ(alone.runner().kv().stats().cached_blocks, drafting.runner().kv().stats().cached_blocks);
    return got->wait();
  }

  Outcome whole_;
  KnownAnswers known_;
};

TEST_F(DraftingEnds, AStopTextAnywhereInABlock) {
  LoopUnderTest test(kTarget, plain());
  int found = 0;
  for (size_t end = 8; end < 24; ++end) {
    // The texts up to a token and to the next: what lies between them is a stop text.
    const std::vector<int32_t> before(answer().begin(), answer().begin() + static_cast<ptrdiff_t>(end)),
        with(answer().begin(), answer().begin() + static_cast<ptrdiff_t>(end) + 1);
    const std::string shorter = test.tokenizer().decode(before), longer = test.tokenizer().decode(with);
    const std::string stop = longer.substr(std::min(longer.size(), shorter.size()));
    if (stop.empty() || shorter.find(stop) != std::string::npos || stop.find("\xef\xbf\xbd") != std::string::npos) {
      continue;
    }
    Request request = seeded_request(60);
    request.stop = {stop};
    const Outcome outcome = expect_as_plain(request);
    if (outcome.choices[0].reason != FinishReason::kStop) continue;
    EXPECT_EQ(outcome.choices[0].stop_text, 0);
    ++found;
  }
  EXPECT_GT(found, 3);
}

TEST_F(DraftingEnds, AnEndTokenAnywhereInABlock) {
  int found = 0;
  for (size_t end = 8; end < 40; ++end) {
    if (std::find(answer().begin(), answer().begin() + static_cast<ptrdiff_t>(end), answer()[end]) !=
        answer().begin() + static_cast<ptrdiff_t>(end)) {
      continue;  // it would end the answer earlier
    }
    Request request = seeded_request(60);
    request.sampling.stop_token_ids = {answer()[end]};
    const Outcome outcome = expect_as_plain(request);
    EXPECT_EQ(outcome.choices[0].reason, FinishReason::kStop);
    EXPECT_EQ(outcome.choices[0].stop_token, answer()[end]);
    EXPECT_EQ(outcome.choices[0].tokens.size(), end);
    ++found;
  }
  EXPECT_GT(found, 3);
}

TEST_F(DraftingEnds, TheModelsOwnEndInsideABlock) {
  LoopUnderTest test(kTarget, plain());
  int32_t end_token = -1;
  for (int32_t id = 0; id < test.tokenizer().size(); ++id) {
    if (test.tokenizer().is_end_of_generation(id)) end_token = id;
  }
  ASSERT_GE(end_token, 0);
  int found = 0;
  for (uint64_t seed = 0; seed < 40 && found < 5; ++seed) {
    Request request = seeded_request(60);
    request.sampling.seed = seed;
    request.sampling.ignore_eos = false;
    request.sampling.logit_bias = {{end_token, 3.0f}};
    const Outcome alone = test.run(request);
    const auto length = alone.choices[0].tokens.size();
    if (alone.choices[0].reason != FinishReason::kStop || length < 6) continue;
    ++found;
    std::vector<int32_t> beyond = alone.choices[0].tokens;
    beyond.push_back(end_token);
    beyond.insert(beyond.end(), {1, 2, 3, 4});
    known_.add(request.prompt, beyond);
    expect_as_plain(request);
  }
  EXPECT_EQ(found, 5);
}

TEST_F(DraftingEnds, TheContextsEndAndTheAnswersLimitInsideABlock) {
  const int prompt = static_cast<int>(seeded_request(1).prompt.size());
  for (int length = 9; length < 18; ++length) {
    const Outcome by_context = expect_as_plain(seeded_request(60), prompt + length);
    EXPECT_EQ(by_context.choices[0].reason, FinishReason::kLength);
    EXPECT_EQ(by_context.choices[0].tokens.size(), static_cast<size_t>(length));
    const Outcome by_limit = expect_as_plain(seeded_request(length));
    EXPECT_EQ(by_limit.choices[0].tokens.size(), static_cast<size_t>(length));
  }
}

// Every row of a block counts the drafted tokens before it: else right drafts would be rejected, or wrong ones taken.
TEST_F(DraftingEnds, PenaltiesCountTheDraftedTokens) {
  for (const int kind : {0, 1, 2, 3}) {
    Request request = seeded_request(60);
    request.sampling.temperature = kind % 2 == 0 ? 0.0 : 1.0;
    if (kind < 2) request.sampling.repetition_penalty = 1.8, request.sampling.repetition_window = 5;
    if (kind >= 2) request.sampling.presence_penalty = 1.5, request.sampling.frequency_penalty = 0.7;
    request.sampling.min_tokens = 10;
    Request unpunished = request;
    unpunished.sampling.repetition_penalty = 1.0;
    unpunished.sampling.presence_penalty = unpunished.sampling.frequency_penalty = 0.0;
    LoopUnderTest alone(kTarget, plain());
    const Outcome expected = alone.run(request);
    EXPECT_NE(expected.choices[0].tokens, alone.run(unpunished).choices[0].tokens);
    known_.add(request.prompt, expected.choices[0].tokens);
    LoopUnderTest drafting(kTarget, knowing(known_));
    const auto got = drafting.start(request);
    EXPECT_TRUE(got->wait() == expected) << "kind " << kind;
    EXPECT_EQ(got->stats().accepted, got->stats().drafted) << "kind " << kind;
    EXPECT_GT(got->stats().accepted, 45) << "kind " << kind;
  }
}

// Sixteen at once, drafted for with a DSpark drafter and too little memory: one opted out, one is seeded, one wants
// log-probabilities, one gives way, and the logits of one turn to NaN.
TEST(DraftingTogether, AMixedBatchOfSixteen) {
  constexpr size_t kOptedOut = 3, kLogprobs = 7, kGivesWay = 11, kBroken = 14;
  const std::string target = DSPARK_TEST_DATA "/models/llama/hf";
  std::mt19937 random(8);
  std::vector<Request> requests(16);
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    for (int n = 0; n < 100; ++n) request.prompt.push_back(static_cast<int32_t>(random() % 250));
    request.sampling.temperature = i % 2 == 0 ? 0.0 : 1.0;
    request.sampling.seed = i == 5 ? 4242 : i;
    request.sampling.ignore_eos = true;
    request.max_tokens = 200;
  }
  requests[kOptedOut].draft_tokens = 0;
  requests[kLogprobs].sampling.logprobs = 5;
  requests[kGivesWay].priority = -1;
  LoopUnderTest alone(target, plain());
  const std::vector<Outcome> expected = alone.run_alone(requests);

  std::atomic<RequestId> broken = 0;
  LoopSetting setting = plain();
  setting.drafter = DSPARK_TEST_DATA "/drafters/markov";
  setting.kv_blocks = 40;  // sixteen want 48
  setting.loop.speculation.fixed = 3;
  setting.loop.speculation.pauses = false;
  setting.loop.disturb = [&](RequestId id, int, std::span<float> logits) {
    if (id == broken) logits[9] = std::numeric_limits<float>::quiet_NaN();
  };
  LoopUnderTest test(target, setting);
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (size_t i = 0; i < requests.size(); ++i) {
    recorders.push_back(test.start(requests[i]));
    if (i == kBroken) broken = test.last_id();
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i == kBroken) {
      EXPECT_EQ(recorders[i]->wait().error, ErrorCode::kCorrupt);
      continue;
    }
    EXPECT_TRUE(recorders[i]->wait() == expected[i]) << "request " << i;
    EXPECT_EQ(recorders[i]->stats().drafted > 0, i != kOptedOut) << "request " << i;
  }
  EXPECT_GT(recorders[kGivesWay]->stats().preemptions, 0);
  test.expect_idle();
}

}  // namespace
}  // namespace dspark
