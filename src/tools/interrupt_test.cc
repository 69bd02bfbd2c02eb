// Tests of interrupt.h.
#include "tools/interrupt.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace dspark {
namespace {

bool awake(const InterruptScope& interrupt) {
  pollfd wait = {interrupt.wake_fd(), POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

TEST(Interrupt, SignalIsARequestUntilItIsCleared) {
  InterruptScope interrupt;
  EXPECT_FALSE(interrupt.requested());
  EXPECT_FALSE(awake(interrupt));
  std::thread([] { raise(SIGINT); }).join();  // on another thread, and before anybody waits
  EXPECT_TRUE(interrupt.requested());
  EXPECT_TRUE(awake(interrupt));
  interrupt.clear();
  EXPECT_FALSE(interrupt.requested());
  EXPECT_FALSE(awake(interrupt));
}

TEST(Interrupt, WhoeverInsistsGetsOut) {
  EXPECT_EXIT(
      {
        const InterruptScope interrupt;
        raise(SIGINT);
        raise(SIGINT);
      },
      testing::ExitedWithCode(130), "");
}

TEST(Interrupt, BehindTheScopeASignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        { const InterruptScope interrupt; }
        raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace dspark
