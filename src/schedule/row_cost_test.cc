// RowCost on made-up measurements.
#include "schedule/row_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace dspark {
namespace {

double true_ms(int rows) { return std::max(3.0, 0.9 * rows); }

TEST(RowCost, KnowsNothingAtFirst) {
  const RowCost cost;
  EXPECT_FALSE(cost.known());
  EXPECT_EQ(cost.ms(8), 0.0);
}

TEST(RowCost, LearnsACurve) {
  RowCost cost;
  for (int i = 0; i < 50; ++i) {
    for (const int rows : {1, 3, 9, 33, 100, 400}) cost.observe(rows, true_ms(rows));
  }
  for (const int rows : {1, 3, 9, 33, 100, 400}) EXPECT_NEAR(cost.ms(rows), true_ms(rows), 1e-6) << rows;
  EXPECT_NEAR(cost.ms(50), true_ms(50), 0.1 * true_ms(50));
  EXPECT_NEAR(cost.ms(800), true_ms(800), 1e-6);
}

TEST(RowCost, GrowsWithTheRowsWhateverWasMeasured) {
  RowCost cost;
  for (int i = 0; i < 5; ++i) cost.observe(4, 10.0), cost.observe(20, 6.0), cost.observe(90, 50.0);
  for (int rows = 2; rows < 300; ++rows) EXPECT_GE(cost.ms(rows), cost.ms(rows - 1)) << rows;
}

TEST(RowCost, OneSlowStepMovesItLittle) {
  RowCost cost;
  for (int i = 0; i < 20; ++i) cost.observe(8, 8.0);
  cost.observe(8, 5000.0);
  EXPECT_LT(cost.ms(8), 10.0);
  for (int i = 0; i < 100; ++i) cost.observe(8, 16.0);  // but a slower machine is believed
  EXPECT_NEAR(cost.ms(8), 16.0, 0.1);
}

TEST(RowCost, IgnoresNonsense) {
  RowCost cost;
  cost.observe(0, 1.0);
  cost.observe(4, -1.0);
  cost.observe(4, std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(cost.known());
}

}  // namespace
}  // namespace dspark
