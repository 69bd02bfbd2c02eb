// Tests of thread_pool.h. ThreadSanitizer runs them too (make tsan): results are read without further locking.
#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <immintrin.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

namespace dspark {
namespace {

constexpr int kThreadCounts[] = {1, 2, 3, 8};

// Runs `tasks` tasks that count themselves; true if each ran exactly once.
bool each_once(ThreadPool& pool, int tasks) {
  std::vector<int> runs(static_cast<size_t>(tasks));
  pool.run(tasks, [&](int task) { ++runs[static_cast<size_t>(task)]; });
  for (int count : runs) {
    if (count != 1) return false;
  }
  return true;
}

TEST(ThreadPool, RunsEveryTaskExactlyOnce) {
  for (int threads : kThreadCounts) {
    for (int spin_us : {0, 300}) {
      ThreadPool pool({.threads = threads, .spin_us = spin_us});
      EXPECT_EQ(pool.size(), threads);
      for (int tasks : {0, 1, 2, 3, 7, 8, 9, 64, 1000, 10'000}) {
        for (int repeat = 0; repeat < 5; ++repeat) {
          EXPECT_TRUE(each_once(pool, tasks)) << tasks << " tasks, " << threads << " threads, spin " << spin_us;
        }
      }
    }
  }
}

// The number of the loop passes 2^16 here, where its 16 bits start again.
TEST(ThreadPool, ShortLoopsOneAfterAnotherLoseNothing) {
  for (int threads : kThreadCounts) {
    ThreadPool pool({.threads = threads});
    std::vector<int64_t> sums(5);
    const int loops = threads <= 3 ? 100'000 : 20'000;
    for (int loop = 0; loop < loops; ++loop) {
      const int tasks = loop % 5 + 1;
      pool.run(tasks, [&](int task) { sums[static_cast<size_t>(task)] += loop; });
    }
    for (int task = 0; task < 5; ++task) {
      int64_t expected = 0;
      for (int loop = 0; loop < loops; ++loop) expected += loop % 5 >= task ? loop : 0;
      EXPECT_EQ(sums[static_cast<size_t>(task)], expected) << "task " << task << ", " << threads << " threads";
    }
  }
}

TEST(ThreadPool, WorkersThatSleepAreWoken) {
  for (int threads : {2, 3, 8}) {
    ThreadPool pool({.threads = threads, .spin_us = 0});
    for (int loop = 0; loop < 50; ++loop) {
      std::this_thread::sleep_for(std::chrono::microseconds(loop % 10 * 100));
      // Waits in every task until another thread has come: nobody does it alone.
      std::atomic<int> arrived{0};
      pool.run(2, [&](int) {
        ++arrived;
        while (arrived < 2) sched_yield();
      });
      EXPECT_EQ(arrived, 2);
    }
  }
}

TEST(ThreadPool, RangesInOrderRunEveryIndexOnceAndEndIdle) {
  for (int threads : kThreadCounts) {
    ThreadPool pool({.threads = threads});
    for (int count : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      for (int repeat = 0; repeat < 100; ++repeat) {
        std::vector<int> runs(static_cast<size_t>(count)), idle(static_cast<size_t>(threads));
        std::atomic<int> ranges_seen{0};
        pool.run_in_order(
            count,
            [&](int i) {
              ++runs[static_cast<size_t>(i)];
              if (i == repeat) sched_yield();  // others help out in this range
            },
            [&](int range, int ranges) {
              ++idle[static_cast<size_t>(range)];
              ranges_seen = ranges;
            });
        EXPECT_EQ(runs, std::vector<int>(runs.size(), 1)) << count << " indices, " << threads << " threads";
        EXPECT_EQ(ranges_seen, std::max(1, std::min(count, threads)));
        for (int range = 0; range < threads; ++range) {
          EXPECT_EQ(idle[static_cast<size_t>(range)], range < ranges_seen ? 1 : 0);
        }
      }
    }
  }
}

TEST(ThreadPool, LongTasksHoldUpOnlyTheirOwnLoop) {
  ThreadPool pool({.threads = 3, .spin_us = 50});
  for (int loop = 0; loop < 20; ++loop) {
    std::vector<int> done(6);
    pool.run(6, [&](int task) {
      if (task == loop % 6) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      done[static_cast<size_t>(task)] = task + loop;
    });
    for (int task = 0; task < 6; ++task) EXPECT_EQ(done[static_cast<size_t>(task)], task + loop);
  }
}

TEST(ThreadPool, EndsWhetherItsWorkersSpinSleepOrHaveNotStarted) {
  for (int threads : kThreadCounts) {
    for (int spin_us : {0, 300}) {
      for (int round = 0; round < 40; ++round) {
        ThreadPool pool({.threads = threads, .spin_us = spin_us});
        if (round % 4 != 0) {
          EXPECT_TRUE(each_once(pool, round));
        }
        if (round % 4 == 3) std::this_thread::sleep_for(std::chrono::microseconds(400));
      }
    }
  }
}

TEST(ThreadPool, AnyThreadMayCallRunOneAtATime) {
  ThreadPool pool({.threads = 3});
  for (int i = 0; i < 10; ++i) {
    std::thread([&] { EXPECT_TRUE(each_once(pool, 100)); }).join();
    EXPECT_TRUE(each_once(pool, 100));
  }
}

TEST(ThreadPool, SeveralPoolsWorkSideBySide) {
  ThreadPool outer({.threads = 3});
  std::vector<int> sums(3);
  outer.run(3, [&](int task) {
    ThreadPool inner({.threads = 2});
    std::vector<int> squares(50);
    inner.run(50, [&](int i) { squares[static_cast<size_t>(i)] = i * i; });
    sums[static_cast<size_t>(task)] = std::accumulate(squares.begin(), squares.end(), 0);
  });
  for (int sum : sums) EXPECT_EQ(sum, 40'425);
}

// Rounding and subnormals are part of the bits (docs/numerics.md): a program that embeds the engine may have set
// others.
TEST(ThreadPool, TasksRunInTheKernelsFloatModeWhateverTheCallerSet) {
  constexpr unsigned kFlags = 0x3F;  // sticky, of no effect
  const unsigned before = _mm_getcsr();
  for (int threads : {1, 3}) {
    ThreadPool pool({.threads = threads});
    for (int tasks : {1, 20}) {
      _mm_setcsr(0xFFC0);  // flush to zero, denormals are zero, round towards zero
      std::vector<unsigned> modes(static_cast<size_t>(tasks));
      pool.run(tasks, [&](int task) { modes[static_cast<size_t>(task)] = _mm_getcsr() & ~kFlags; });
      EXPECT_EQ(_mm_getcsr() & ~kFlags, 0xFFC0u) << "the caller's mode is its own";
      for (unsigned mode : modes) EXPECT_EQ(mode, 0x1F80u) << threads << " threads, " << tasks << " tasks";
    }
  }
  _mm_setcsr(before);
}

TEST(ThreadPool, PinnedWorkersStayOnOneAllowedCore) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  ThreadPool pool({.threads = 3, .pin = true});
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> arrived{0};
  pool.run(3, [&](int) {
    ++arrived;
    while (arrived < 3) sched_yield();  // every thread takes one task
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
    if (std::this_thread::get_id() == caller) {
      EXPECT_TRUE(CPU_EQUAL(&mine, &allowed));
    } else {
      EXPECT_EQ(CPU_COUNT(&mine), 1);
      CPU_AND(&mine, &mine, &allowed);
      EXPECT_EQ(CPU_COUNT(&mine), 1);
    }
  });
}

TEST(ThreadPoolDeathTest, NestedLoopsAndWrongCountsAreRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (int threads : {1, 2}) {
    EXPECT_DEATH(
        {
          ThreadPool pool({.threads = threads});
          pool.run(4, [&](int) { pool.run(4, [](int) {}); });
        },
        "one loop at a time");
  }
  EXPECT_DEATH(ThreadPool({.threads = 0}), "threads = 0");
  EXPECT_DEATH(ThreadPool({.threads = 1}).run(-1, [](int) {}), "tasks = -1");
  EXPECT_DEATH(ThreadPool({.threads = 2}).run(1 << 24, [](int) {}), "tasks = 16777216");
}

}  // namespace
}  // namespace dspark
