// WorkQueue: what takes too long for the network thread, in the order it came, on a few threads. Long work has one
// thread that prefers it, and the others do none of it, so that short work never waits for long. Any thread may push.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace dspark {

class WorkQueue {
 public:
  // At least two threads.
  WorkQueue(int threads, size_t max_waiting);
  // What has not begun is dropped.
  ~WorkQueue();

  // False if too much waits already.
  bool push(std::function<void()> work, bool takes_long);

 private:
  void run(bool long_first);

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> short_;
  std::deque<std::function<void()>> long_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dspark
