// Tests of simulator.h, against published rates. One thread.
#include "schedule/simulator.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dspark {
namespace {

// Its points are DeepInfer's table: with five drafted tokens each, the published rates come out.
TEST(Simulator, TheDeepinferCurveGivesBackItsTable) {
  const CostCurve curve = deepinfer_curve();
  const double tokens = (1.0 - std::pow(0.75, 6)) / 0.25;
  EXPECT_NEAR(16 * tokens / curve.ms(96) * 1e3, 4891.0, 1.0);
  EXPECT_NEAR(60 * tokens / curve.ms(360) * 1e3, 13730.0, 1.0);
  EXPECT_NEAR(96 * tokens / curve.ms(576) * 1e3, 16817.0, 1.0);
  EXPECT_GT(curve.ms(1), 0.0);
  EXPECT_LT(curve.ms(1), curve.ms(96));
}

class SimulatorLoad : public testing::TestWithParam<std::tuple<int, SurvivalModel>> {};

TEST_P(SimulatorLoad, PlannedIsNeverBelowFixedAndNearTheOracle) {
  const auto [sequences, survival] = GetParam();
  const std::vector<SurvivalTrace> traces = {{0.95f, 0.9f, 0.9f, 0.8f, 0.8f},
                                             {0.4f, 0.3f, 0.3f, 0.2f, 0.2f},
                                             {0.7f, 0.6f, 0.6f, 0.5f, 0.5f},
                                             {0.99f, 0.98f, 0.97f, 0.9f, 0.9f}};
  Result<SimPoint> point = simulate(deepinfer_curve(), sequences, survival, traces, {.steps = 400});
  ASSERT_TRUE(point.ok()) << point.error().message;
  EXPECT_GE(point->planned.tokens_per_second, point->fixed.tokens_per_second);
  EXPECT_GE(point->planned.tokens_per_second, 0.97 * point->oracle.tokens_per_second);
  EXPECT_GE(point->planned.tokens_per_second, point->off.tokens_per_second);
}

INSTANTIATE_TEST_SUITE_P(Loads, SimulatorLoad,
                         testing::Combine(testing::Values(16, 60, 96),
                                          testing::Values(SurvivalModel::kIndependent, SurvivalModel::kSpread,
                                                          SurvivalModel::kTraces)));

TEST(Simulator, TheDraftsHaveTheMeanAskedFor) {
  const std::vector<SurvivalTrace> traces = {{0.2f, 0.3f, 0.4f, 0.1f, 0.2f}, {0.5f, 0.6f, 0.7f, 0.6f, 0.5f}};
  const double expected = (1.0 - std::pow(0.6, 6)) / 0.4;  // 1 + p + p^2 + ... for independent chances
  Result<SimPoint> point =
      simulate(deepinfer_curve(), 16, SurvivalModel::kIndependent, {}, {.acceptance = 0.6, .steps = 2000});
  ASSERT_TRUE(point.ok());
  EXPECT_NEAR(point->fixed.tokens_per_step, expected, 0.03);
  // A block of one: its tokens a step are 1 + the mean chance, for every model.
  for (SurvivalModel survival : {SurvivalModel::kIndependent, SurvivalModel::kSpread, SurvivalModel::kTraces}) {
    point = simulate(deepinfer_curve(), 16, survival, traces, {.acceptance = 0.6, .block = 1, .steps = 2000});
    ASSERT_TRUE(point.ok());
    EXPECT_NEAR(point->fixed.tokens_per_step, 1.6, 0.02) << survival_model_name(survival);
  }
}

TEST(Simulator, TheSameSeedGivesTheSameNumbers) {
  const auto run = [](uint64_t seed) {
    return simulate(deepinfer_curve(), 16, SurvivalModel::kSpread, {}, {.steps = 50, .seed = seed})
        ->planned.tokens_per_second;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Simulator, BadOptionsAreNamed) {
  const auto error = [](SimOptions options, SurvivalModel survival = SurvivalModel::kSpread, int sequences = 16) {
    return simulate(deepinfer_curve(), sequences, survival, {}, options).error().message;
  };
  EXPECT_NE(error({.acceptance = 1.0}).find("acceptance 1"), std::string::npos);
  EXPECT_NE(error({.block = 0}).find("block 0"), std::string::npos);
  EXPECT_NE(error({}, SurvivalModel::kSpread, 0).find("sequences 0"), std::string::npos);
  EXPECT_NE(error({}, SurvivalModel::kTraces).find("recorded chances"), std::string::npos);
}

}  // namespace
}  // namespace dspark
