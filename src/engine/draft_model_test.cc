// A draft model in the step loop: every request's tokens and log-probabilities have the same bits as without it, and a
// model that drafts for itself is always right. On tiny models. Test thread.
#include <gtest/gtest.h>

#include "draft/ngram_drafter.h"
#include "engine/loop_harness.h"

namespace dspark {
namespace {

const std::string kTarget = DSPARK_TEST_DATA "/models/quant/quant-q8_0.gguf";
const std::string kDraft = DSPARK_TEST_DATA "/models/quant/quant-q4_0.gguf";  // the same, quantised further

LoopSetting drafting(const std::string& model, int fixed) {
  LoopSetting setting;
  setting.draft_model = model;
  setting.loop.schedule.max_rows = 64;
  setting.loop.schedule.step_budget = 64;
  setting.loop.speculation.fixed = fixed;
  setting.loop.speculation.pauses = false;
  setting.loop.check_accounting = true;
  return setting;
}

TEST(DraftModel, TheTargetItselfIsAlwaysRight) {
  std::vector<Request> requests;
  {
    LoopUnderTest alone(kTarget, {});
    requests = mixed_requests(30, alone.vocab(), 60, 40);
  }
  for (Request& request : requests) request.work = Work::kGenerate;
  for (const double temperature : {0.0, 1.0}) {
    for (Request& request : requests) request.sampling.temperature = temperature;
    LoopSetting setting = drafting(kTarget, 5);
    setting.kv_blocks = 40;
    LoopUnderTest test(kTarget, setting);
    for (const Request& request : requests) {
      const auto recorder = test.start(request);
      const Outcome& outcome = recorder->wait();
      const RequestStats& stats = recorder->stats();
      // A stop may cut what was drafted beyond it; nothing else is ever wrong.
      const bool cut = std::ranges::any_of(outcome.choices, [](auto& c) { return c.reason == FinishReason::kStop; });
      if (!cut) {
        EXPECT_EQ(stats.accepted, stats.drafted) << "temperature " << temperature;
      }
    }
    const LoopStats stats = test.loop().stats();
    EXPECT_GT(stats.accepted, 300);
    EXPECT_EQ(stats.speculation.broken, 0);
    test.expect_idle();
  }
}

TEST(DraftModel, ChangesNoBit) {
  std::vector<Request> requests;
  std::vector<Outcome> expected;
  {
    LoopUnderTest alone(kTarget, {});
    requests = mixed_requests(40, alone.vocab(), 300, 40);
    expected = alone.run_alone(requests);
  }
  for (const int fixed : {1, 2, 3, 4, 5, 6, 7, -1}) {
    const LoopStats stats = expect_as_alone(kTarget, drafting(kDraft, fixed), requests, expected,
                                            fmt::format("a draft model, fixed {}", fixed));
    if (fixed > 0) {
      EXPECT_GT(stats.accepted, 100) << fixed;
    }
    if (fixed > 0) {
      EXPECT_LT(stats.accepted, stats.drafted) << fixed;
    }
  }
  LoopSetting competing = drafting(kDraft, -1);
  competing.loop.drafters = {std::make_shared<NgramDrafter>(std::make_shared<NgramStore>(), kMostDrafted)};
  competing.kv_blocks = 40;
  competing.loop.schedule.max_running = 7;
  expect_as_alone(kTarget, competing, requests, expected, "with n-grams, planned, little memory");
}

}  // namespace
}  // namespace dspark
