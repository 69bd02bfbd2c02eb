// ThreadPool: a persistent team that takes the tasks of one parallel loop after another. The thread that calls run()
// works too. One loop at a time: neither two threads nor a task may call run() while a loop runs (checked).
//
// Which worker runs which task is left to an atomic counter, so nothing a task computes may depend on its worker
// (the row law). Workers spin for a while after a loop, since the next one of a step follows within microseconds,
// and then sleep. A worker that is late, or never gets a core, holds nobody up: loops wait for tasks, not for workers.
// With more threads than this process has CPUs nobody spins, as that would keep others from their work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace dspark {

class ThreadPool {
 public:
  struct Options {
    int threads = 1;    // including the caller of run()
    bool pin = false;   // one worker a core, in the order of the creator's affinity mask; the caller of run() moves
    int spin_us = 300;  // how long an idle worker polls before it sleeps
  };
  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // fn(task) for each task in [0, tasks), in any order, on any worker, in the kernels' float mode; returns when all are
  // done. tasks < 2^24; fn must not throw.
  template <class Fn>
  void run(int tasks, Fn&& fn) {
    run_loop(
        tasks, [](const void* context, int task) { (*static_cast<Pointer<Fn>>(const_cast<void*>(context)))(task); },
        &fn);
  }

  // fn(i) for each i in [0, count): each worker goes through a range of its own in order, so that what it reads lies
  // one behind the other in memory, and then helps out in the others' ranges. A worker that finds nothing left calls
  // idle(r, ranges), r its own range, before it waits for the others.
  template <class Fn, class Idle>
  void run_in_order(int count, Fn&& fn, Idle&& idle) {
    struct alignas(64) Range {
      std::atomic<int> next;
      int end;
    };
    constexpr int kMaxRanges = 256;
    Range range[kMaxRanges];
    const int used = std::max(1, std::min({count, size(), kMaxRanges}));
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
  template <class Fn>
  using Pointer = std::remove_reference_t<Fn>*;
  using TaskFn = void (*)(const void* context, int task);
  void run_loop(int tasks, TaskFn fn, const void* context);
  void share_loop(int tasks);
  void work(uint32_t epoch);
  void worker_main(int index, bool pin);

  // One word names the loop and its next task, so that a late worker can never take a task of a loop it has not seen:
  // epoch (16 bits) | tasks (24) | next (24).
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<uint32_t> wake_{0};  // bumped to wake sleepers
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> running_{false};
  TaskFn fn_ = nullptr;  // of the current loop; written before the ticket, read after a task is taken
  const void* context_ = nullptr;
  int spin_us_;
  unsigned polls_before_yield_;  // of the caller, when others hold the last tasks
  std::vector<std::thread> workers_;
};

}  // namespace dspark
