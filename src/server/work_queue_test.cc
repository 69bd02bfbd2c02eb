// Short work goes on while long work does not end, and nothing is lost.
#include "server/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace dspark {
namespace {

TEST(WorkQueue, ShortWorkDoesNotWaitForLong) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> long_done = 0;
  WorkQueue queue(2, 100);
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(queue.push([&, released] { released.wait(), ++long_done; }, true));
  }
  for (int i = 0; i < 20; ++i) {
    std::promise<void> done;
    ASSERT_TRUE(queue.push([&] { done.set_value(); }, false));
    done.get_future().wait();  // or the test hangs
  }
  EXPECT_EQ(long_done, 0);
  release.set_value();
  std::promise<void> last;
  ASSERT_TRUE(queue.push([&] { last.set_value(); }, true));
  last.get_future().wait();
  EXPECT_EQ(long_done, 5);
}

TEST(WorkQueue, TooMuchIsRefused) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::promise<void> begun;
  WorkQueue queue(2, 2);
  ASSERT_TRUE(queue.push([&, released] { begun.set_value(), released.wait(); }, true));
  begun.get_future().wait();
  EXPECT_TRUE(queue.push([] {}, true));
  EXPECT_TRUE(queue.push([] {}, true));
  EXPECT_FALSE(queue.push([] {}, false));
  release.set_value();
}

}  // namespace
}  // namespace dspark
