// ThreadPool: a persistent team that takes the tasks of one parallel loop after another. The thread that calls run()
// works too; only one thread may call run() at a time.
//
// Which worker runs which task is left to an atomic counter, so nothing a task computes may depend on its worker
// (the row law). Workers spin for a while after a loop, since the next one of a step follows within microseconds,
// and then sleep. A worker that is late, or never gets a core, holds nobody up: loops wait for tasks, not for workers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace dspark {

class ThreadPool {
 public:
  struct Options {
    int threads = 1;    // including the caller of run()
    bool pin = false;   // one thread a core, in the order of this process's affinity mask
    int spin_us = 300;  // how long an idle worker polls before it sleeps
  };
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // fn(task) for each task in [0, tasks), in any order, on any worker; returns when all are done. fn must not throw.
  template <class Fn>
  void run(int tasks, Fn&& fn) {
    if (tasks <= 1 || workers_.empty()) {
      for (int task = 0; task < tasks; ++task) fn(task);
      return;
    }
    run_job(
        tasks, [](void* context, int task) { (*static_cast<std::remove_reference_t<Fn>*>(context))(task); }, &fn);
  }

  // fn(i) for each i in [0, count): each worker goes through a range of its own in order, so that what it reads lies
  // one behind the other in memory, and then helps out in the others' ranges. A worker that finds nothing left calls
  // idle(r, ranges), r its own range, before it waits for the others.
  template <class Fn, class Idle>
  void run_in_order(int count, Fn&& fn, Idle&& idle) {
    const int ranges = size() < count ? size() : count;
    if (ranges <= 1) {
      for (int i = 0; i < count; ++i) fn(i);
      idle(0, 1);
      return;
    }
    struct alignas(64) Range {
      std::atomic<int> next;
      int end;
    };
    constexpr int kMaxRanges = 256;
    Range range[kMaxRanges];
    const int used = ranges < kMaxRanges ? ranges : kMaxRanges;
    for (int r = 0; r < used; ++r) {
      range[r].next.store(static_cast<int>(int64_t{count} * r / used), std::memory_order_relaxed);
      range[r].end = static_cast<int>(int64_t{count} * (r + 1) / used);
    }
    run(used, [&](int first) {
      for (int step = 0; step < used; ++step) {
        Range& own = range[(first + step) % used];
        for (int i = own.next.fetch_add(1, std::memory_order_relaxed); i < own.end;
             i = own.next.fetch_add(1, std::memory_order_relaxed)) {
          fn(i);
        }
      }
      idle(first, used);
    });
  }

 private:
  using TaskFn = void (*)(void* context, int task);
  void run_job(int tasks, TaskFn fn, void* context);
  void work(uint32_t epoch);
  void worker_main(int index, bool pin);

  // One word names the loop and its next task, so that a late worker can never take a task of a loop it has not seen:
  // epoch (16 bits) | tasks (24) | next (24).
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<uint32_t> wake_{0};  // bumped to wake sleepers
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  TaskFn fn_ = nullptr;  // of the current loop; written before the ticket, read after a task is taken
  void* context_ = nullptr;
  int spin_us_;
  std::vector<std::thread> workers_;
};

}  // namespace dspark
