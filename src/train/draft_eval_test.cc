// Evaluation of drafters: pace and fresh text of known answers, what a watched drafter tells against the step loop's
// own counts, and that watching changes nothing.
#include "train/draft_eval.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

namespace dspark {
namespace {

TEST(DraftEval, StepsOfAKnownAnswer) {
  StreamedAnswer answer;
  answer.prompt = {1, 2, 3};
  // The first token is the prompt's; then a step of three, a step of one, and a step that the end cuts behind its
  // draft.
  answer.tokens = {10, 11, 12, 13, 14, 15, 16};
  answer.drafted = {false, true, true, false, false, true, true};
  DraftQuality quality;
  add_pace(answer, &quality);
  EXPECT_EQ(quality.pace.steps, 3);
  EXPECT_EQ(quality.pace.tokens, 6);
  EXPECT_DOUBLE_EQ(quality.pace.tau(), 2.0);
  EXPECT_EQ(quality.fresh.steps, 3) << "nothing was seen before";
}

TEST(DraftEval, RepeatedTextIsNotFresh) {
  StreamedAnswer answer;
  answer.prompt = {1, 2, 3, 4, 5, 6, 7};
  answer.tokens = {1, 2, 3, 4, 5, 6, 7, 8};  // the sixth ends a 6-gram of the prompt, the seventh too
  answer.drafted.assign(8, false);
  DraftQuality quality;
  add_pace(answer, &quality);
  EXPECT_EQ(quality.pace.steps, 7);
  EXPECT_EQ(quality.fresh.steps, 5);
}

TEST(DraftEval, AcceptanceByPlace) {
  WatchedSequence sequence;
  sequence.tokens = {1, 2, 3};
  const float nothing = std::numeric_limits<float>::quiet_NaN();
  sequence.drafts = {{2, {{5, 0.9f, 1.0f}, {6, 0.6f, 0.5f}, {7, 0.3f, 0.0f}}, {}, 1}, {2, {{5, 0.8f, nothing}}, {}, 1}};
  DraftQuality quality;
  add_drafts(sequence, &quality);
  ASSERT_EQ(quality.positions.size(), 3u);
  EXPECT_EQ(quality.positions[0].reached, 2);
  EXPECT_EQ(quality.positions[0].accepted, 2);
  EXPECT_EQ(quality.positions[1].reached, 1);
  EXPECT_EQ(quality.positions[1].accepted, 0);
  EXPECT_EQ(quality.positions[2].reached, 0) << "the token before it failed";
  EXPECT_EQ(quality.positions[2].survival.size(), 1u) << "but its survival was foretold";
  ASSERT_EQ(quality.confidences.size(), 1u) << "a draft without confidences is none to calibrate with";
  EXPECT_EQ(quality.confidences[0].accepted, 1);
}

TEST(DraftEval, WatchingAgreesWithTheLoopAndChangesNothing) {
  EngineOptions options;
  options.model = std::string(DSPARK_TEST_DATA) + "/models/llama/llama.gguf";
  options.runner.threads = 1;
  options.speculation.fixed = 4;
  options.speculation.pauses = false;
  std::vector<std::shared_ptr<WatchedDrafter>> watched;
  options.watch = [&](std::shared_ptr<Drafter> drafter, int vocab) {
    watched.push_back(std::make_shared<WatchedDrafter>(std::move(drafter), vocab, 0.0));
    return watched.back();
  };
  const auto engine = Engine::open(options).value();
  EvalOptions asked = {.sampling = {}, .max_tokens = 60, .slots = 3};
  asked.sampling.temperature = 0.0;
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 5; ++i) prompts.push_back({i + 3, i + 4, 7, i + 3, i + 4});
  const auto quality = evaluate_drafts(*engine, watched, prompts, asked, [](int64_t) { return true; });
  ASSERT_TRUE(quality.ok()) << quality.error().message;
  const LoopStats stats = engine->loop().stats();
  const int64_t accepted = std::accumulate(quality->positions.begin(), quality->positions.end(), int64_t{0},
                                           [](int64_t sum, const auto& place) { return sum + place.accepted; });
  EXPECT_EQ(quality->prompts, 5);
  EXPECT_EQ(quality->drafts, stats.speculation.verifications);
  EXPECT_EQ(accepted,
            std::accumulate(stats.speculation.accepted.begin(), stats.speculation.accepted.end(), int64_t{0}));
  EXPECT_GT(quality->drafts, 0);
  EXPECT_EQ(quality->pace.tokens, stats.output_tokens - 5);

  options.watch = nullptr;
  const auto plain = Engine::open(options).value();
  GenerateRequest request;
  request.prompt = prompts[2];
  request.sampling = asked.sampling;
  request.max_tokens = 60;
  const auto again = plain->generate(request, nullptr);
  const auto watched_again = engine->generate(request, nullptr);
  ASSERT_TRUE(again.ok() && watched_again.ok());
  EXPECT_EQ(again->tokens, watched_again->tokens);
}

}  // namespace
}  // namespace dspark
