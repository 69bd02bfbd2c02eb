// Tests of draft_window.h. One thread.
#include "draft/draft_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace dspark {
namespace {

std::vector<int32_t> counting(int count, int distinct) {
  std::vector<int32_t> out;
  for (int i = 0; i < count; ++i) out.push_back(i % distinct);
  return out;
}

TEST(DraftWindow, DensityIsEntropy) {
  EXPECT_DOUBLE_EQ(token_density(counting(64, 64)), 1.0);
  EXPECT_DOUBLE_EQ(token_density(counting(64, 1)), 0.0);
  EXPECT_NEAR(token_density(counting(64, 8)), 0.5, 1e-12);  // 3 bits of 6
}

TEST(DraftWindow, StaysWhereItMayNotMove) {
  DraftWindow window({.size = 700}, counting(64, 8));
  for (int i = 0; i < 100; ++i) window.verified(5, i % 3);
  EXPECT_EQ(window.positions(), 700);
}

TEST(DraftWindow, BeginsWithTheDensityOfTheContext) {
  const WindowOptions options = {.size = 2048, .min = 128, .max = 1152};
  EXPECT_EQ(DraftWindow(options, counting(64, 64)).positions(), 1152);
  EXPECT_EQ(DraftWindow(options, counting(64, 1)).positions(), 128);
  EXPECT_EQ(DraftWindow(options, counting(64, 8)).positions(), 640);
}

// Acceptance that is best at some width: the window stays near it, from wherever it begins.
TEST(DraftWindow, FollowsAcceptance) {
  for (const int distinct : {1, 64}) {
    DraftWindow window({.size = 2048, .min = 128, .max = 4096}, counting(64, distinct));
    for (int i = 0; i < 40 * DraftWindow::kTrial; ++i) {
      const double off = window.positions() / 1000.0;
      window.verified(1000, static_cast<int>(800 - 300 * std::abs(off - 1.0) / (off + 1.0)));
    }
    EXPECT_GT(window.positions(), 500) << distinct;
    EXPECT_LT(window.positions(), 2000) << distinct;
  }
}

}  // namespace
}  // namespace dspark
