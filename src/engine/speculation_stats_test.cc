// Tests of speculation_stats.h. One thread.
#include "engine/speculation_stats.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dspark {
namespace {

TEST(SpeculationStats, CalibrationErrorIsTheWeightedDistance) {
  SurvivalBins bins = {};
  EXPECT_EQ(calibration_error(bins), 0.0);
  bins[10] = {.tokens = 100, .accepted = 50, .foretold = 52.0};
  bins[18] = {.tokens = 300, .accepted = 300, .foretold = 270.0};
  EXPECT_NEAR(calibration_error(bins), (2.0 + 30.0) / 400.0, 1e-12);
}

TEST(SpeculationStats, TheAreaIsTheChanceToRankAPairRight) {
  SurvivalBins bins = {};
  EXPECT_TRUE(std::isnan(area_under_curve(bins)));
  bins[4] = {.tokens = 10, .accepted = 0};
  bins[15] = {.tokens = 10, .accepted = 10};
  EXPECT_DOUBLE_EQ(area_under_curve(bins), 1.0);
  bins[4].accepted = 5, bins[15].accepted = 5;
  EXPECT_DOUBLE_EQ(area_under_curve(bins), 0.5);
  bins[4].accepted = 2, bins[15].accepted = 8;  // 8 of 10 pairs of each kind: 0.8^2 + (0.8 * 0.2 * 2) / 2
  EXPECT_NEAR(area_under_curve(bins), 0.64 + 0.16, 1e-12);
}

}  // namespace
}  // namespace dspark
