// Tests of draft_health.h. One thread.
#include "schedule/draft_health.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

// Steps until drafting is allowed again.
int pause(DraftHealth& health) {
  int steps = 0;
  for (; !health.may_draft(); ++steps) health.step(0, 0, 0.0);
  return steps;
}

void fail(DraftHealth& health, int verifications) {
  for (int i = 0; i < verifications; ++i) health.step(4, 0, 0.9);
}

TEST(DraftHealth, PausesAfterFiveFailuresAndLongerEachTime) {
  DraftHealth health;
  fail(health, kFailedRow - 1);
  EXPECT_TRUE(health.may_draft());
  fail(health, 1);
  EXPECT_FALSE(health.may_draft());
  EXPECT_EQ(pause(health), 8);
  fail(health, kFailedRow);
  EXPECT_EQ(pause(health), 16);
  for (int i = 0; i < 20; ++i) {
    fail(health, kFailedRow);
    const int steps = pause(health);
    EXPECT_LE(steps, kLongestPause);
    if (i > 10) {
      EXPECT_EQ(steps, kLongestPause);
    }
  }
  EXPECT_EQ(health.pauses(), 22);
}

TEST(DraftHealth, OneAcceptedDraftForgetsTheFailures) {
  DraftHealth health;
  fail(health, kFailedRow);
  EXPECT_EQ(pause(health), 8);
  health.step(4, 2, 0.9);
  fail(health, kFailedRow - 1);
  EXPECT_TRUE(health.may_draft());
  fail(health, 1);
  EXPECT_EQ(pause(health), 8);
}

TEST(DraftHealth, StepsWithoutDraftsAreNoFailures) {
  DraftHealth health;
  for (int i = 0; i < 100; ++i) health.step(0, 0, 0.0);
  EXPECT_TRUE(health.may_draft());
  EXPECT_EQ(health.failures(), 0);
}

TEST(DraftHealth, LessThanATwentiethIsAFailure) {
  DraftHealth health;
  health.step(40, 1, 0.9);  // of 40, and of the next 160 none
  for (int i = 0; i < 3; ++i) health.step(40, 0, 0.9);
  EXPECT_TRUE(health.may_draft());
  health.step(40, 0, 0.9);
  EXPECT_FALSE(health.may_draft());
}

TEST(DraftHealth, FailuresThatWereForetoldAreNoReasonToPause) {
  DraftHealth health;
  for (int i = 0; i < 12; ++i) health.step(1, 0, 0.3);  // 0.7^12 = 0.014
  EXPECT_TRUE(health.may_draft());
  health.step(1, 0, 0.3);
  EXPECT_FALSE(health.may_draft());
}

}  // namespace
}  // namespace dspark
