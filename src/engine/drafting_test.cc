// DSpark drafters in the step loop: every request's tokens and log-probabilities have the same bits as without them,
// and their KV follows the blocks. On tiny models with random drafters of every head. Test thread.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "draft/ngram_drafter.h"
#include "engine/loop_harness.h"

namespace dspark {
namespace {

const std::string kTarget = DSPARK_TEST_DATA "/models/llama/hf";
const char* const kHeads[] = {"none", "markov", "gated", "rnn", "reduced", "lookup"};

std::string head_path(const std::string& head) { return DSPARK_TEST_DATA "/drafters/" + head; }

LoopSetting plain() {
  LoopSetting setting;
  setting.loop.schedule.max_rows = 64;
  setting.loop.schedule.step_budget = 64;
  setting.loop.check_accounting = true;
  return setting;
}

LoopSetting drafting(const std::string& head, int fixed) {
  LoopSetting setting = plain();
  setting.drafter = head_path(head);
  setting.loop.speculation.fixed = fixed;
  return setting;
}

class DraftedTokens : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    LoopUnderTest alone(kTarget, plain());
    requests_ = mixed_requests(40, alone.vocab(), 300, 40);
    expected_ = alone.run_alone(requests_);
  }
  static LoopStats check(LoopSetting setting, const std::string& what) {
    return expect_as_alone(kTarget, std::move(setting), requests_, expected_, what);
  }

  static std::vector<Request> requests_;
  static std::vector<Outcome> expected_;
};
std::vector<Request> DraftedTokens::requests_;
std::vector<Outcome> DraftedTokens::expected_;

TEST_F(DraftedTokens, WhateverTheHead) {
  for (const std::string head : kHeads) {
    const LoopStats stats = check(drafting(head, 3), head);
    EXPECT_GT(stats.drafted, 1000) << head;
    EXPECT_EQ(stats.speculation.broken, 0) << head;
  }
}

TEST_F(DraftedTokens, WhateverIsVerified) {
  for (int fixed = 0; fixed <= 7; ++fixed) {
    // Blocks of up to 16, so that every length is whole.
    const LoopStats stats = check(drafting("reduced", fixed), fmt::format("fixed {}", fixed));
    for (int place = 0; place < 8; ++place) {
      EXPECT_EQ(stats.speculation.verified[static_cast<size_t>(place)] > 0, place < fixed) << fixed << ", " << place;
    }
    LoopSetting look_up = plain();
    look_up.loop.speculation.fixed = fixed;
    look_up.loop.drafters = {std::make_shared<NgramDrafter>(std::make_shared<NgramStore>(), kMostDrafted)};
    EXPECT_EQ(check(look_up, fmt::format("n-grams, fixed {}", fixed)).drafted > 100, fixed > 0);
  }
  check(drafting("lookup", -1), "planned");
  LoopSetting both = drafting("lookup", -1);
  both.loop.drafters = {std::make_shared<NgramDrafter>(std::make_shared<NgramStore>(), kMostDrafted)};
  both.loop.schedule.max_running = 5;
  check(both, "planned, with n-grams");
}

}  // namespace
}  // namespace dspark
