// Tests of draft_plan.h and draft_experience.h. One thread.
#include "schedule/draft_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedule/draft_experience.h"

namespace dspark {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

using Curve = std::vector<float>;
const Curve kGood = {0.8f, 0.6f, 0.5f, 0.4f}, kBad = {0.05f, 0.0f, 0.0f, 0.0f};

// A machine on which rows cost `row_ms` each after the first.
CostModel machine(double row_ms, double draft_ms, double draft_row_ms) {
  std::vector<CostPoint> points;
  for (const int rows : {1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512}) points.push_back({rows, 4.0 + row_ms * (rows - 1)});
  return *CostModel::create(points, {.drafts = {{{.ms = draft_ms, .row_ms = draft_row_ms}}}});
}

std::vector<std::span<const float>> recent_of(const DraftExperience& experience, uint64_t sequence, int situation) {
  std::vector<std::span<const float>> out;
  experience.recent(sequence, situation, &out);
  return out;
}

std::vector<int> lengths(int count, const Curve& at_hand, const Curve& recent, const CostModel& cost, int most = 4) {
  const std::span<const float> known[] = {recent};
  std::vector<DraftProspect> prospects;
  for (int i = 0; i < count; ++i) {
    prospects.push_back({at_hand, recent.empty() ? std::span<const std::span<const float>>() : known, 100, most});
  }
  return plan_drafts(prospects, {}, cost, {}).lengths;
}

TEST(DraftPlan, DraftsWhereItPays) {
  const CostModel cost = machine(0.2, 0.2, 0.05);
  EXPECT_THAT(lengths(1, {}, kGood, cost), ElementsAre(4));
  EXPECT_THAT(lengths(1, {}, kBad, cost), ElementsAre(0));
  EXPECT_THAT(lengths(1, {}, {}, cost), ElementsAre(4)) << "unknown is tried";
  EXPECT_THAT(lengths(1, {}, kGood, cost, 0), ElementsAre(0)) << "no room";
  EXPECT_THAT(lengths(3, {}, kGood, cost), Each(4));
}

TEST(DraftPlan, DraftsNothingThatCostsMoreThanItBrings) {
  EXPECT_THAT(lengths(1, {}, kGood, machine(0.2, 20.0, 0.05)), ElementsAre(0));  // drafting is dear
  EXPECT_THAT(lengths(1, {}, kGood, machine(8.0, 0.2, 0.05)), ElementsAre(0));   // verifying is
  // Many at once: every row costs its share, and a plain row brings a whole token.
  EXPECT_THAT(lengths(96, {}, {0.3f, 0.1f, 0.05f}, machine(1.0, 0.2, 0.05)), Each(0));
}

TEST(DraftPlan, AGoodGuessAtHandMakesDraftingNeedless) {
  const CostModel cost = machine(0.2, 0.3, 0.1);
  EXPECT_THAT(lengths(1, {0.95f, 0.93f, 0.9f, 0.88f}, kGood, cost), ElementsAre(0));
  const std::span<const float> known[] = {kGood};
  const Curve much = {0.95f, 0.93f, 0.9f, 0.88f};
  const std::vector<DraftProspect> two = {{much, known, 100, 4}, {{}, known, 100, 4}};
  EXPECT_THAT(plan_drafts(two, {}, cost, {}).lengths, ElementsAre(0, 4));
}

TEST(DraftPlan, WhatARowMustBring) {
  EXPECT_NEAR(least_survival(1, {}, machine(0.2, 0.2, 0.05)), 0.5 * (1 / 4.0) * 0.2, 1e-6);
  EXPECT_NEAR(least_survival(96, {}, machine(1.0, 0.2, 0.05)), 0.5 * (96 / 99.0) * 1.0, 1e-6);
  EXPECT_NEAR(least_survival(1, {.prompt_rows = 64, .joining = 95}, machine(1.0, 0.2, 0.05)), 0.5 * (96 / 99.0), 1e-6);
  const CostModel staircase = *CostModel::create(std::vector<CostPoint>{{1, 4.0}, {2, 8.0}, {5, 8.0}, {9, 30.0}}, {});
  EXPECT_NEAR(least_survival(1, {}, staircase), 0.5 * (1 / 4.0) * (4.0 / 4), 1e-6) << "five rows cost what two do";
}

TEST(DraftPlan, TheLengthIsPlanned) {
  const Curve early = {0.9f, 0.7f, 0.02f, 0.01f, 0.0f, 0.0f};
  EXPECT_THAT(lengths(1, {}, early, machine(0.2, 0.1, 0.3), 6), ElementsAre(3));
}

// The mean over drafts counts: one in two is good, and that is known only once it is made.
TEST(DraftPlan, ADraftIsWorthItsChanceToBeGood) {
  const CostModel cost = machine(0.5, 0.1, 0.02);
  const Curve sure = {0.95f, 0.9f, 0.85f, 0.8f};
  const std::span<const float> known[] = {kBad, sure};
  const std::vector<DraftProspect> one = {{{}, known, 100, 4}};
  const DraftPlan plan = plan_drafts(one, {}, cost, {});
  EXPECT_THAT(plan.lengths, ElementsAre(4));
  EXPECT_GT(plan.gain, 1.2);
}

TEST(DraftExperience, TheOwnNewestComesFirst) {
  constexpr size_t kOwn = DraftExperience::kOwn;
  DraftExperience experience;
  const int situation = DraftExperience::situation(1, {});
  const auto known = [&](uint64_t sequence, int where) {
    std::vector<Curve> out;
    for (const auto& curve : recent_of(experience, sequence, where)) out.emplace_back(curve.begin(), curve.end());
    EXPECT_EQ(out.size(), kOwn + DraftExperience::kKept);
    return out;
  };
  EXPECT_THAT(known(7, situation), Each(IsEmpty()));
  experience.learn(7, situation, kGood);
  experience.learn(8, situation, kBad);
  std::vector<Curve> recent = known(7, situation);
  EXPECT_EQ(recent[0], kGood);
  EXPECT_THAT(recent[1], IsEmpty()) << "it has made one draft";
  EXPECT_EQ(recent[kOwn], kBad) << "the newest of the situation";
  EXPECT_EQ(recent[kOwn + 1], kGood);
  EXPECT_THAT(std::span(recent).subspan(kOwn + 2), Each(IsEmpty())) << "two say little";
  experience.release(7);
  recent = known(7, situation);
  EXPECT_THAT(recent[0], IsEmpty()) << "an answer is worth a try of its own";
  EXPECT_EQ(recent[kOwn], kBad);
  EXPECT_THAT(known(7, DraftExperience::situation(1, Curve{0.9f})), Each(IsEmpty())) << "another situation";
  EXPECT_THAT(known(7, DraftExperience::situation(2, {})), Each(IsEmpty())) << "another kind of task";
}

TEST(DraftExperience, WhatIsLeftOutIsTriedAgainLessAndLess) {
  DraftExperience experience;
  const int present[] = {5, 5, 9};
  std::vector<int> tries;
  for (int step = 1; step <= 400; ++step) {
    for (const int situation : experience.due(present, std::array{9})) {
      EXPECT_EQ(situation, 5);
      tries.push_back(step);
    }
  }
  EXPECT_THAT(tries, ElementsAre(32, 96, 224, 352));
  experience.due(present, std::array{5, 9});  // it was worth it
  tries.clear();
  for (int step = 1; step <= 40; ++step) {
    if (!experience.due(present, std::array{9}).empty()) tries.push_back(step);
  }
  EXPECT_THAT(tries, ElementsAre(32));
}

}  // namespace
}  // namespace dspark
