// Tests of progress.h.
#include "tools/progress.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

TEST(Progress, LineSaysWhatIsKnown) {
  EXPECT_EQ(progress_line(ProgressUnit::kBytes, 10 << 20, 40 << 20, 2.0),
            "10.0 MiB of 40.0 MiB  25%  5.0 MiB/s  6 s left");
  EXPECT_EQ(progress_line(ProgressUnit::kTokens, 300, 0, 3.0), "300 tokens  100 tokens/s");
  EXPECT_EQ(progress_line(ProgressUnit::kSteps, 0, 50, 0.0), "0 steps of 50 steps  0%");
  EXPECT_EQ(progress_line(ProgressUnit::kSteps, 50, 50, 5.0), "50 steps of 50 steps  100%  10 steps/s");
}

TEST(Progress, TimeLeftHasAFittingUnit) {
  EXPECT_TRUE(progress_line(ProgressUnit::kSteps, 1, 601, 1.0).ends_with("  10 min left"));
  EXPECT_TRUE(progress_line(ProgressUnit::kSteps, 1, 9001, 1.0).ends_with("  2 h 30 min left"));
}

}  // namespace
}  // namespace dspark
