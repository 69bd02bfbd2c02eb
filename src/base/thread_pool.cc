// The loop and the sleeping of thread_pool.h.
#include "base/thread_pool.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "base/check.h"
#include "base/cpu.h"
#include "base/float_mode.h"

namespace dspark {
namespace {

constexpr int kTaskBits = 24;
constexpr uint64_t kTaskMask = (uint64_t{1} << kTaskBits) - 1;

uint64_t make_ticket(uint32_t epoch, uint64_t tasks) { return uint64_t{epoch} << (2 * kTaskBits) | tasks << kTaskBits; }
uint32_t ticket_epoch(uint64_t ticket) { return static_cast<uint32_t>(ticket >> (2 * kTaskBits)); }
uint64_t ticket_tasks(uint64_t ticket) { return ticket >> kTaskBits & kTaskMask; }
uint64_t ticket_next(uint64_t ticket) { return ticket & kTaskMask; }

// How many threads of this process can run at once; hyperthreads count, as they can.
int allowed_cpus() {
  cpu_set_t allowed;
  const bool known = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  const int cpus = known ? CPU_COUNT(&allowed) : static_cast<int>(std::thread::hardware_concurrency());
  const int limit = cgroup_cpus("/sys/fs/cgroup/cpu.max");
  return limit > 0 ? std::min(cpus, limit) : cpus;
}

void pin_to_core(int index) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  int skip = index % CPU_COUNT(&allowed);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

}  // namespace

ThreadPool::ThreadPool(const Options& options) : spin_us_(options.spin_us), polls_before_yield_(1024) {
  DSPARK_CHECK(options.threads >= 1, "threads = {}", options.threads);
  if (options.threads > allowed_cpus()) {
    spin_us_ = 0;
    polls_before_yield_ = 16;
  }
  for (int i = 1; i < options.threads; ++i) {
    workers_.emplace_back([this, i, pin = options.pin] { worker_main(i, pin); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  wake_.fetch_add(1);
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_loop(int tasks, TaskFn fn, const void* context) {
  DSPARK_CHECK(tasks >= 0 && static_cast<uint64_t>(tasks) <= kTaskMask, "tasks = {}", tasks);
  DSPARK_CHECK(!running_.exchange(true, std::memory_order_acquire), "a pool runs one loop at a time");
  const FloatMode mode;
  fn_ = fn;
  context_ = context;
  if (tasks <= 1 || workers_.empty()) {
    for (int task = 0; task < tasks; ++task) fn(context, task);
  } else {
    share_loop(tasks);
  }
  running_.store(false, std::memory_order_release);
}

void ThreadPool::share_loop(int tasks) {
  done_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = (ticket_epoch(ticket_.load(std::memory_order_relaxed)) + 1) & 0xFFFF;
  ticket_.store(make_ticket(epoch, static_cast<uint64_t>(tasks)));  // seq_cst: ordered before the look at sleepers_
  if (sleepers_.load() > 0) {
    wake_.fetch_add(1);
    wake_.notify_all();
  }
  work(epoch);
  // A task that a preempted worker holds may take a while: give up the core now and then.
  for (unsigned polls = 1; done_.load(std::memory_order_acquire) != tasks; ++polls) {
    if (polls % polls_before_yield_ == 0) {
      sched_yield();
    } else {
      _mm_pause();
    }
  }
}

void ThreadPool::work(uint32_t epoch) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (ticket_epoch(ticket) == epoch && ticket_next(ticket) < ticket_tasks(ticket)) {
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
    fn_(context_, static_cast<int>(ticket_next(ticket)));
    done_.fetch_add(1, std::memory_order_release);
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::worker_main(int index, bool pin) {
  pthread_setname_np(pthread_self(), "dspark-work");
  if (pin) pin_to_core(index);
  const FloatMode mode;
  uint32_t seen = 0;
  using Clock = std::chrono::steady_clock;
  auto idle_since = Clock::now();
  for (uint64_t polls = 1; !stop_.load(std::memory_order_relaxed); ++polls) {
    const uint32_t epoch = ticket_epoch(ticket_.load(std::memory_order_acquire));
    if (epoch != seen) {
      seen = epoch;
      work(epoch);
      idle_since = Clock::now();
      continue;
    }
    _mm_pause();
    if (polls % 64 != 0 || Clock::now() - idle_since < std::chrono::microseconds(spin_us_)) continue;
    const uint32_t wake = wake_.load();
    sleepers_.fetch_add(1);
    // Published between the poll and here? Then do not sleep: whoever published may not have seen this sleeper.
    if (ticket_epoch(ticket_.load()) == seen && !stop_.load()) wake_.wait(wake);
    sleepers_.fetch_sub(1);
    idle_since = Clock::now();
  }
}

}  // namespace dspark
