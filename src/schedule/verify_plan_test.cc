// Tests of verify_plan.h: tables, and the plan against exhaustive search on random workloads. One thread.
#include "schedule/verify_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace dspark {
namespace {

using testing::Each;
using testing::ElementsAre;

CostModel cost_of(std::vector<CostPoint> points, CostTerms terms = {}) {
  Result<CostModel> model = CostModel::create(points, terms);
  EXPECT_TRUE(model.ok());
  return *model;
}

// Rows are nearly free up to eight, then dear.
CostModel ridge() {
  std::vector<CostPoint> points;
  for (int rows = 1; rows <= 64; ++rows)
    points.push_back({rows, rows <= 8 ? 4.0 + 0.05 * rows : 4.4 + 2.0 * (rows - 8)});
  return cost_of(points);
}

TEST(VerifyPlan, StopsWhereRowsBecomeDear) {
  const std::vector<float> good = {0.9f, 0.8f, 0.7f, 0.6f, 0.5f, 0.4f, 0.35f, 0.3f};
  const std::vector<float> bad = {0.2f, 0.05f, 0.01f};
  const std::vector<DraftedSequence> sequences = {{good}, {bad}};
  const VerifyPlan plan = plan_verification(sequences, {}, ridge(), {});
  EXPECT_THAT(plan.depths, ElementsAre(6, 0));
  EXPECT_EQ(plan.budget, 6);
  EXPECT_EQ(plan.shape.rows, 8);
  EXPECT_NEAR(plan.expected_tokens, 2.0 + 0.9 + 0.8 + 0.7 + 0.6 + 0.5 + 0.4, 1e-6);
}

TEST(VerifyPlan, LooksBeyondAStair) {
  // Five rows cost a stair, and only eight pay for it.
  std::vector<CostPoint> points;
  for (int rows = 1; rows <= 8; ++rows) points.push_back({rows, rows == 1 ? 4.0 : 6.0});
  const std::vector<float> survival = {0.45f, 0.44f, 0.43f, 0.42f};
  const std::vector<DraftedSequence> sequences = {{survival}};
  EXPECT_THAT(plan_verification(sequences, {}, cost_of(points), {}).depths, ElementsAre(4));
}

TEST(VerifyPlan, ObeysItsLimits) {
  const std::vector<float> survival = {0.9f, 0.8f, 0.7f, 0.6f};
  const std::vector<DraftedSequence> sequences = {{survival}, {survival}};
  const CostModel cost = cost_of({{1, 4.0}, {64, 4.1}});
  EXPECT_THAT(plan_verification(sequences, {}, cost, {}).depths, Each(4));
  EXPECT_THAT(plan_verification(sequences, {}, cost, {.most_each = 2}).depths, Each(2));
  EXPECT_THAT(plan_verification(sequences, {}, cost, {.floor = 0.75}).depths, Each(2));
  EXPECT_THAT(plan_verification(sequences, {}, cost, {.fixed = 3, .floor = 0.75}).depths, Each(3));
  EXPECT_THAT(plan_verification(sequences, {}, cost, {.fixed = 0}).depths, Each(0));
  EXPECT_THAT(plan_verification(sequences, {}, ridge(), {.fixed = 4}).depths, Each(4));
}

TEST(VerifyPlan, BrokenConfidencesAreWorthNothing) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> broken = {nan, 0.9f}, growing = {0.5f, 0.9f}, certain = {1.0f};
  const std::vector<DraftedSequence> sequences = {{broken}, {growing}, {certain}};
  const VerifyPlan plan = plan_verification(sequences, {}, cost_of({{1, 4.0}, {64, 4.1}}), {});
  EXPECT_THAT(plan.depths, ElementsAre(0, 2, 1));
  EXPECT_NEAR(plan.expected_tokens, 3.0 + 0.5 + 0.5 + 1.0, 1e-6);
}

TEST(VerifyPlan, APromptInTheStepMakesDraftsNeitherCheaperNorDearer) {
  std::vector<CostPoint> line;
  for (int rows : {1, 2, 4, 8, 16, 64, 512}) line.push_back({rows, 4.0 + 0.5 * rows});
  const CostModel cost = cost_of(line);
  const std::vector<float> survival = {0.5f, 0.25f, 0.12f};
  const std::vector<DraftedSequence> sequences = {{survival}, {survival}, {survival}, {survival}};
  const int alone = plan_verification(sequences, {}, cost, {}).budget;
  EXPECT_EQ(plan_verification(sequences, {.prompt_rows = 256}, cost, {}).budget, alone);
}

TEST(VerifyPlan, ALongContextMakesRowsDear) {
  const std::vector<float> survival = {0.5f, 0.3f};
  const CostModel cost = cost_of({{1, 4.0}, {8, 4.1}}, {.context_ms = 1e-3});
  const std::vector<DraftedSequence> near = {{survival, 10}}, far = {{survival, 100'000}};
  EXPECT_EQ(plan_verification(near, {}, cost, {}).budget, 2);
  EXPECT_EQ(plan_verification(far, {}, cost, {}).budget, 0);
}

// No assignment of depths has a better rate, by trying all of them, unless none gains enough over no drafts at all.
RC_GTEST_PROP(VerifyPlan, IsTheBestOfAll, ()) {
  const int sequences_count = *rc::gen::inRange(1, 4);
  std::vector<std::vector<float>> survivals(static_cast<size_t>(sequences_count));
  std::vector<DraftedSequence> sequences;
  for (auto& survival : survivals) {
    float s = 1.0f;
    const int depth = *rc::gen::inRange(0, 4);
    for (int k = 0; k < depth; ++k) survival.push_back(s *= static_cast<float>(*rc::gen::inRange(1, 100)) * 0.01f);
    sequences.push_back({survival});
  }
  std::vector<CostPoint> points;
  double ms = 1.0;
  for (int rows = 1; rows <= 16; ++rows) points.push_back({rows, ms += *rc::gen::inRange(0, 100) * 0.01});
  const CostModel cost = cost_of(points);
  const VerifyPlan plan = plan_verification(sequences, {}, cost, {});
  const double planned = plan.expected_tokens / plan.expected_ms;
  const double without = sequences_count / cost.ms({.rows = sequences_count});
  RC_ASSERT(plan.budget == 0 || planned > without * kLeastPlanGain * (1.0 - 1e-6));
  std::vector<int> depths(survivals.size(), 0);
  for (bool more = true; more;) {
    double tokens = 0.0;
    int rows = 0;
    for (size_t i = 0; i < depths.size(); ++i) {
      rows += 1 + depths[i];
      tokens += 1.0;
      for (int k = 0; k < depths[i]; ++k) tokens += static_cast<double>(survivals[i][static_cast<size_t>(k)]);
    }
    const double rate = tokens / cost.ms({.rows = rows});
    RC_ASSERT(planned >= rate * (1.0 - 1e-6) || (plan.budget == 0 && rate <= without * kLeastPlanGain * (1.0 + 1e-6)));
    more = false;
    for (size_t i = 0; i < depths.size() && !more; ++i) {
      more = depths[i] < static_cast<int>(survivals[i].size());
      depths[i] = more ? depths[i] + 1 : 0;
    }
  }
}

// Two decode while the prompts of six others are computed: what they leave now, a step of eight will bring cheaply.
TEST(VerifyPlan, WhoeverIsAboutToDecodeCounts) {
  std::vector<CostPoint> points;
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128, 256}) points.push_back({rows, 4.0 + 0.5 * rows});
  const CostModel cost = cost_of(points);
  const std::vector<float> unlikely = {0.4f}, likely = {0.95f};
  const auto budget = [&](const std::vector<float>& survival, int joining) {
    const std::vector<DraftedSequence> sequences = {{survival}, {{}}};
    return plan_verification(sequences, {.prompt_rows = 100, .joining = joining}, cost, {}).budget;
  };
  EXPECT_EQ(budget(unlikely, 0), 1);
  EXPECT_EQ(budget(unlikely, 6), 0);
  EXPECT_EQ(budget(likely, 6), 1);
}

}  // namespace
}  // namespace dspark
