// See work_queue.h.
#include "server/work_queue.h"

#include <utility>

namespace dspark {

WorkQueue::WorkQueue(int threads, size_t max_waiting) : max_waiting_(max_waiting) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkQueue::push(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || waiting_.size() >= max_waiting_) return false;
    waiting_.push_back(std::move(work));
  }
  ready_.notify_one();
  return true;
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    auto work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace dspark
