// The correction of chances that turn out too high or too low. Test thread.
#include "draft/online_correction.h"

#include <gtest/gtest.h>

#include <random>

namespace dspark {
namespace {

TEST(OnlineCorrection, LeavesChancesAloneThatAreRight) {
  OnlineCorrection correction;
  EXPECT_EQ(correction.corrected(0, 3, 0.7), 0.7);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < 5000; ++i) {
    const double chance = uniform(random);
    correction.observe(0, 3, chance, uniform(random) < chance);
  }
  for (const double chance : {0.1, 0.5, 0.9}) EXPECT_NEAR(correction.corrected(0, 3, chance), chance, 0.05);
  EXPECT_EQ(correction.corrected(0, 3, 0.0), 0.0);
  EXPECT_EQ(correction.corrected(0, 3, 1.0), 1.0);
}

TEST(OnlineCorrection, FollowsWhatHappensInItsBucketAndPlace) {
  OnlineCorrection correction;
  for (int i = 0; i < 5000; ++i) correction.observe(2, 1, 0.8, i % 5 == 0);
  EXPECT_NEAR(correction.corrected(2, 1, 0.8), 0.2, 0.02);
  // Order is kept.
  EXPECT_LT(correction.corrected(2, 1, 0.5), correction.corrected(2, 1, 0.8));
  EXPECT_EQ(correction.corrected(1, 1, 0.8), 0.8);
  EXPECT_EQ(correction.corrected(2, 0, 0.8), 0.8);
  for (int i = 0; i < 5000; ++i) correction.observe(2, 1, 0.8, i % 5 != 0);
  EXPECT_NEAR(correction.corrected(2, 1, 0.8), 0.8, 0.02);
}

TEST(OnlineCorrection, AFewSurprisesMoveItLittle) {
  OnlineCorrection correction;
  for (int i = 0; i < 3; ++i) correction.observe(0, 0, 0.9, false);
  EXPECT_GT(correction.corrected(0, 0, 0.9), 0.75);
  EXPECT_LT(correction.corrected(0, 0, 0.9), 0.9);
}

TEST(OnlineCorrection, BucketsBeyondTheLastShareIt) {
  OnlineCorrection correction;
  for (int i = 0; i < 100; ++i) correction.observe(1000, 99, 0.5, true);
  EXPECT_GT(correction.corrected(OnlineCorrection::kBuckets - 1, kMaxDraftSlots - 1, 0.5), 0.6);
}

TEST(SequenceCorrection, FollowsWhatHappensInOneAnswer) {
  SequenceCorrection correction;
  EXPECT_EQ(correction.corrected(1, 0.8), 0.8);
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform;
  double mean = 0.0;
  for (int i = 0; i < 2000; ++i) {
    const double chance = correction.corrected(1, 0.8);
    correction.observe(1, chance, uniform(random) < 0.3);
    if (i >= 1000) mean += chance / 1000;
  }
  EXPECT_NEAR(mean, 0.3, 0.06);
  EXPECT_LT(correction.corrected(1, 0.5), correction.corrected(1, 0.8));
  EXPECT_EQ(correction.corrected(2, 0.8), 0.8);
  EXPECT_EQ(correction.corrected(1, 0.0), 0.0);
  EXPECT_EQ(correction.corrected(1, 1.0), 1.0);
  correction.release(1);
  EXPECT_EQ(correction.corrected(1, 0.8), 0.8);
}

TEST(SequenceCorrection, NoRunOfSurprisesIsForGood) {
  SequenceCorrection correction;
  for (int i = 0; i < 100'000; ++i) correction.observe(1, 0.9, false);
  EXPECT_GT(correction.corrected(1, 0.9), 0.05);
}

}  // namespace
}  // namespace dspark
