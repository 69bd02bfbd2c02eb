// WorkQueue: a few threads for what would hold up the network thread: parsing, templates, tokenizing. push() from any
// thread.
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
  WorkQueue(int threads, size_t max_waiting);
  ~WorkQueue();  // finishes what runs, drops what waits

  // False if too much waits already.
  bool push(std::function<void()> work);

 private:
  void run();

  const size_t max_waiting_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> waiting_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace dspark
