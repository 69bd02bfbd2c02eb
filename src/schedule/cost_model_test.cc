// Tests of cost_model.h: the belief against machines of known cost. One thread.
#include "schedule/cost_model.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace dspark {
namespace {

// A machine: 4 ms for up to four rows, then a step up for every tile of four.
double staircase(int rows) {
  const int full_tiles = (rows - 1) / 4;
  return 4.0 + 1.5 * full_tiles + 0.02 * rows;
}

std::vector<CostPoint> profile_of(double (*truth)(int), double factor = 1.0) {
  std::vector<CostPoint> points;
  for (int rows : {1, 2, 3, 4, 5, 6, 8, 9, 12, 13, 16, 24, 32, 64, 128, 256, 512}) {
    points.push_back({rows, factor * truth(rows)});
  }
  return points;
}

CostModel model_of(const std::vector<CostPoint>& points, const CostTerms& terms = {}) {
  Result<CostModel> model = CostModel::create(points, terms);
  EXPECT_TRUE(model.ok());
  return *model;
}

// Runs steps of all sizes in turn, with the noise of a shared host.
void run_steps(CostModel& model, int steps, double factor, std::mt19937& random, std::vector<int> sizes) {
  std::normal_distribution<double> noise(0.0, 0.05);
  for (int i = 0; i < steps; ++i) {
    const int rows = sizes[static_cast<size_t>(i) % sizes.size()];
    model.observe({.rows = rows}, factor * staircase(rows) * std::exp(noise(random)));
  }
}

TEST(CostModel, TellsTheProfile) {
  const CostModel model = model_of(profile_of(staircase));
  for (int rows : {1, 4, 16, 64, 512}) EXPECT_NEAR(model.ms({.rows = rows}), staircase(rows), 0.1 * staircase(rows));
  EXPECT_GT(model.ms({.rows = 5}), 1.15 * model.ms({.rows = 4}));  // the stair is still there
}

TEST(CostModel, BeyondTheProfileItIsNeverTooCheap) {
  const CostModel model = model_of({{1, 4.0}, {8, 8.0}});
  EXPECT_NEAR(model.ms({.rows = 16}), 16.0, 0.5);
  EXPECT_NEAR(model.ms({.rows = 5000}), 5000.0, 100.0);
}

TEST(CostModel, AddsItsTerms) {
  const CostModel model = model_of(
      {{1, 4.0}},
      {.context_ms = 1e-3, .drafts = {{{.ms = 0.5, .row_ms = 0.1}, {.ms = 3.0, .row_ms = 1.0}}}, .expert_ms = 0.01});
  const double bare = model.ms({.rows = 1});
  EXPECT_NEAR(model.ms({.rows = 1, .context = 2000}) - bare, 2.0, 1e-9);
  EXPECT_NEAR(model.ms({.rows = 1, .draft_rows = {5}}) - bare, 1.0, 1e-9);
  EXPECT_NEAR(model.ms({.rows = 1, .draft_rows = {0, 2}}) - bare, 5.0, 1e-9);
  EXPECT_NEAR(model.ms({.rows = 1, .draft_rows = {5, 2}}) - bare, 6.0, 1e-9);
  EXPECT_NEAR(model.ms({.rows = 1, .experts = 100}) - bare, 1.0, 1e-9);
}

// What one drafter takes says nothing about the other.
TEST(CostModel, EachDrafterHasACostOfItsOwn) {
  CostModel model = model_of({{1, 4.0}}, {.drafts = {{{.ms = 0.5, .row_ms = 0.1}, {.ms = 0.5, .row_ms = 0.1}}}});
  const auto drafting = [&](DraftRows rows) {
    return model.ms({.rows = 1, .draft_rows = rows}) - model.ms({.rows = 1});
  };
  for (int i = 0; i < 60; ++i) model.observe_draft(1, 5, 8.0);
  EXPECT_NEAR(drafting({5, 0}), 1.0, 1e-9);
  EXPECT_NEAR(drafting({0, 5}), 8.0, 0.4);
  // Another one takes the place of the second: three drafts tell what it costs.
  model.doubt_draft(1);
  for (int i = 0; i < 3; ++i) model.observe_draft(1, 5, 2.0);
  EXPECT_NEAR(drafting({0, 5}), 2.0, 0.5);
  EXPECT_NEAR(drafting({5, 0}), 1.0, 1e-9);
}

TEST(CostModel, RefusesWhatIsNoCost) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const CostPoint& point : {CostPoint{0, 1.0}, CostPoint{1, 0.0}, CostPoint{1, -1.0}, CostPoint{2, nan}}) {
    const std::vector<CostPoint> points = {point};
    EXPECT_EQ(CostModel::create(points, {}).error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(CostModel::create({}, {}).error().code, ErrorCode::kInvalidArgument);
}

RC_GTEST_PROP(CostModel, GrowsWithTheRowsWhateverItHasSeen, ()) {
  CostModel model;
  const int steps = *rc::gen::inRange(0, 60);
  for (int i = 0; i < steps; ++i) {
    model.observe({.rows = *rc::gen::inRange(1, 700)}, *rc::gen::inRange(1, 5000) * 1e-2);
  }
  double before = 0.0;
  for (int rows = 1; rows < 1400; ++rows) {
    const double ms = model.ms({.rows = rows});
    RC_ASSERT(std::isfinite(ms) && ms > 0.0);
    RC_ASSERT(ms >= before * (1.0 - 1e-12));
    before = ms;
  }
}

TEST(CostModel, WithoutAProfileItLearnsTheSizesThatRun) {
  CostModel model;
  std::mt19937 random(1);
  run_steps(model, 60, 1.0, random, {1, 4, 8, 16});
  for (int rows : {1, 4, 8, 16}) {
    EXPECT_NEAR(model.ms({.rows = rows}), staircase(rows), 0.15 * staircase(rows)) << rows;
  }
}

TEST(CostModel, AProfileThatIsTwiceTooFastIsReportedAndCorrected) {
  CostModel model = model_of(profile_of(staircase, 0.45));
  model.observe({.rows = 1}, staircase(1));
  EXPECT_EQ(model.steps_off(), 1);
  std::mt19937 random(2);
  run_steps(model, 30, 1.0, random, {1, 4, 8});
  EXPECT_EQ(model.steps_off(), 0);
  // The sizes that did not run are right, too: it was the host.
  for (int rows : {1, 4, 8, 32, 64}) {
    EXPECT_NEAR(model.ms({.rows = rows}), staircase(rows), 0.2 * staircase(rows)) << rows;
  }
}

TEST(CostModel, AFlatProfileIsCorrectedWhereStepsRun) {
  CostModel model = model_of(profile_of([](int) { return 5.0; }));
  std::mt19937 random(3);
  run_steps(model, 400, 1.0, random, {1, 4, 8, 16, 64});
  EXPECT_NEAR(model.ms({.rows = 64}) / model.ms({.rows = 1}), staircase(64) / staircase(1),
              0.2 * staircase(64) / staircase(1));
}

TEST(CostModel, AHostThatTurnsSlowForAMinuteLeavesNoTrace) {
  CostModel model = model_of(profile_of(staircase));
  std::mt19937 random(4);
  run_steps(model, 100, 1.0, random, {1, 4, 8, 16});
  run_steps(model, 600, 2.0, random, {1, 4, 8, 16});
  EXPECT_NEAR(model.ms({.rows = 8}), 2.0 * staircase(8), 0.3 * staircase(8));
  run_steps(model, 20, 1.0, random, {1, 4, 8, 16});
  for (int rows : {1, 4, 8, 16, 64}) {
    EXPECT_NEAR(model.ms({.rows = rows}), staircase(rows), 0.2 * staircase(rows)) << rows;
  }
}

TEST(CostModel, OneOutlierMovesLittle) {
  CostModel model = model_of(profile_of(staircase));
  std::mt19937 random(5);
  run_steps(model, 50, 1.0, random, {1, 4, 8, 16});
  const double before = model.ms({.rows = 8});
  model.observe({.rows = 8}, 100.0 * staircase(8));
  EXPECT_LT(model.ms({.rows = 8}), 1.25 * before);
}

TEST(CostModel, APoisonedSizeFadesUntilItIsTriedAgain) {
  std::vector<CostPoint> points = profile_of(staircase);
  for (CostPoint& point : points) point.ms *= point.rows == 8 ? 3.0 : 1.0;
  CostModel model = model_of(points);
  EXPECT_GT(model.ms({.rows = 8}), 1.5 * staircase(8));
  std::mt19937 random(6);
  run_steps(model, 5000, 1.0, random, {1, 4, 16});        // the planner stays away from it
  EXPECT_LT(model.ms({.rows = 8}), 1.35 * staircase(8));  // what 6 and 9 rows say
  run_steps(model, 3, 1.0, random, {8});
  EXPECT_NEAR(model.ms({.rows = 8}), staircase(8), 0.15 * staircase(8));
}

TEST(CostModel, AContextFarBeyondTheProfileIsLearnt) {
  CostModel model = model_of(profile_of(staircase), {.context_ms = 1e-4});
  const auto truth = [](const StepShape& shape) {
    return staircase(shape.rows) + 3e-4 * static_cast<double>(shape.context);
  };
  for (int i = 0; i < 200; ++i) {
    for (const StepShape& shape : {StepShape{.rows = 1, .context = 100}, StepShape{.rows = 4, .context = 400},
                                   StepShape{.rows = 1, .context = 60'000}, StepShape{.rows = 4, .context = 200'000}}) {
      model.observe(shape, truth(shape));
    }
  }
  const StepShape far = {.rows = 4, .context = 100'000};
  EXPECT_NEAR(model.ms(far), truth(far), 0.25 * truth(far));
  EXPECT_NEAR(model.ms({.rows = 1}), staircase(1), 0.25 * staircase(1));
}

}  // namespace
}  // namespace dspark
