// See work_queue.h.
#include "server/work_queue.h"

#include <utility>

#include "base/check.h"

namespace dspark {

WorkQueue::WorkQueue(int threads, size_t max_waiting) : max_waiting_(max_waiting) {
  DSPARK_CHECK(threads >= 2, "{} threads, and one of them may be busy with long work", threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i == 0); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkQueue::push(std::function<void()> work, bool takes_long) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_ || short_.size() + long_.size() >= max_waiting_) return false;
    (takes_long ? long_ : short_).push_back(std::move(work));
  }
  ready_.notify_all();  // not everybody takes everything
  return true;
}

void WorkQueue::run(bool long_first) {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [&] { return stop_ || !short_.empty() || (long_first && !long_.empty()); });
    if (stop_) return;
    auto& from = long_first && !long_.empty() ? long_ : short_;
    auto work = std::move(from.front());
    from.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace dspark
