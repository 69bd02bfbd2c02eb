// Tests of speculation_causes.h: each usual cause is named from what is known, and none where guesses help.
#include "tools/speculation_causes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dspark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> names(const SpeculationFacts& facts) {
  std::vector<std::string> out;
  for (const SpeculationCause& cause : speculation_causes(facts)) {
    out.push_back(cause.name);
    EXPECT_FALSE(cause.text.empty());
  }
  return out;
}

SpeculationFacts usual() { return {.prompt_tokens = 100, .output_tokens = 50, .trained_drafter = true}; }

TEST(SpeculationCauses, NothingIsWrongWhereGuessesAreAccepted) {
  SpeculationFacts facts = usual();
  facts.proposals = 5;
  facts.stats.accepted = 3;
  facts.stats.speculation.verifications = 5;
  EXPECT_THAT(names(facts), IsEmpty());
  facts.stats.speculation.broken = 2;  // look-ups go on
  facts.stats.speculation.pauses = 1;
  EXPECT_THAT(names(facts), ElementsAre("broken_drafter", "paused"));
}

TEST(SpeculationCauses, SettingsAndRequests) {
  SpeculationFacts facts = usual();
  facts.enabled = false;
  EXPECT_THAT(names(facts), ElementsAre("switched_off"));
  facts = usual();
  facts.varying_length = false;
  EXPECT_THAT(names(facts), ElementsAre("varlen_off"));
  facts = usual();
  facts.fixed = 0;
  facts.with = DraftWith::kNone;
  facts.draft_tokens = 0;
  EXPECT_THAT(names(facts), ElementsAre("fixed_zero", "no_drafters", "opted_out"));
}

TEST(SpeculationCauses, NothingProposed) {
  SpeculationFacts facts = usual();
  facts.output_tokens = 1;
  EXPECT_THAT(names(facts), ElementsAre("short_answer"));
  facts = usual();
  facts.stats.speculation.left_out = 40;
  EXPECT_THAT(names(facts), ElementsAre("load"));
  facts = usual();
  facts.stats.speculation.broken = 2;
  EXPECT_THAT(names(facts), ElementsAre("broken_drafter"));
  facts = usual();
  facts.trained_drafter = false;
  EXPECT_THAT(names(facts), ElementsAre("no_trained_drafter", "no_repetition"));
  facts.with = DraftWith::kNgram;
  facts.prompt_tokens = 4;
  EXPECT_THAT(names(facts), ElementsAre("short_prompt"));
  EXPECT_THAT(names(usual()), ElementsAre("unknown"));
}

TEST(SpeculationCauses, ProposedButNotAccepted) {
  SpeculationFacts facts = usual();
  facts.proposals = 9;
  facts.best_survival = 0.7;
  facts.threshold = 0.9;
  EXPECT_THAT(names(facts), ElementsAre("threshold"));
  EXPECT_THAT(speculation_causes(facts)[0].text, HasSubstr("0.9; the likeliest had 0.70"));
  facts.threshold = 0.5;
  EXPECT_THAT(names(facts), ElementsAre("load"));
  facts.stats.speculation.verifications = 9;
  facts.stats.speculation.pauses = 1;
  EXPECT_THAT(names(facts), ElementsAre("paused", "wrong_guesses"));
  facts = usual();
  facts.proposals = 3;  // of look-ups
  facts.stats.speculation.broken = 2;
  EXPECT_THAT(names(facts), ElementsAre("broken_drafter", "load"));
}

}  // namespace
}  // namespace dspark
