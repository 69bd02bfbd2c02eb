// Tests of event_queue.h. One thread.
#include "server/event_queue.h"

#include <gtest/gtest.h>

namespace dspark {
namespace {

struct Rig {
  int wakes = 0;
  std::shared_ptr<EventQueue> queue = std::make_shared<EventQueue>([this] { ++wakes; }, 100'000);
  QueueListener listener{queue, 0};

  bool token(std::string_view text = "x") {
    return listener.on_token({.choice = 0, .token = 1, .text = text, .logprob = 0.0f, .top = {}});
  }
};

TEST(EventQueue, WakesOnceForAllOfAStep) {
  Rig rig;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(rig.token());
  EXPECT_EQ(rig.wakes, 0);
  rig.listener.on_step_end();
  EXPECT_EQ(rig.wakes, 1);
  rig.token();
  rig.listener.on_step_end();
  EXPECT_EQ(rig.wakes, 1) << "who was woken has not looked yet";
  EXPECT_EQ(rig.queue->take().size(), 4u);
  rig.listener.on_step_end();
  EXPECT_EQ(rig.wakes, 1) << "nothing waits";
  rig.token();
  rig.listener.on_step_end();
  EXPECT_EQ(rig.wakes, 2);
}

TEST(EventQueue, TheEndOfARequestWakesByItself) {
  Rig rig;
  rig.token();
  rig.listener.on_end(Ok{}, {});
  EXPECT_EQ(rig.wakes, 1);
  EXPECT_EQ(rig.queue->take().size(), 2u);
}

TEST(EventQueue, WhoDoesNotReadIsWokenAndLeft) {
  Rig rig;
  EXPECT_FALSE(rig.token(std::string(200'000, 'x')));
  EXPECT_EQ(rig.wakes, 1);
  EXPECT_TRUE(rig.queue->overflowed());
  EXPECT_FALSE(rig.token());
  rig.listener.on_end(Ok{}, {});
  EXPECT_EQ(rig.queue->take().size(), 1u) << "the end gets in";
}

}  // namespace
}  // namespace dspark
