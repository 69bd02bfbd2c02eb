// kv_cache.h from several threads at once: one that steps, others that announce, look, open and drop, and one that
// watches. Run under ThreadSanitizer as well (make tsan).
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "kvcache/kv_test_cache.h"

namespace dspark {
namespace {

constexpr int kOpeners = 3;

// Prompts over few beginnings, so that threads meet on the same blocks.
Tokens random_prompt(std::mt19937& random) {
  Tokens out = iota_tokens(static_cast<int>(random() % 400), static_cast<int32_t>(random() % 4));
  const size_t own = random() % 60;
  for (size_t i = 0; i < own; ++i) out.push_back(static_cast<int32_t>(random() % 2));
  return out;
}

TestSequence open_random(KvCache& cache, std::mt19937& random) {
  const Tokens prompt = random_prompt(random);
  const KvPrefix prefix = cache.announce("t", "", prompt);
  const KvOpenOptions options{.max_cached = static_cast<int>(prompt.size()), .drafts = random() % 2 == 0};
  EXPECT_LE(cache.cached(prefix, options), options.max_cached);
  TestSequence out{cache.open(prefix, options), "t", prompt};
  out.truncate_text();
  EXPECT_EQ(out.first_wrong(), -1);
  return out;
}

class KvCacheThreads : public testing::TestWithParam<int> {};

TEST_P(KvCacheThreads, ServeOnlyWhatWasWrittenForTheTokens) {
  auto made = KvCache::create(test_options(40, GetParam()));
  KvCache& cache = **made;
  std::atomic<bool> done = false;
  std::mutex handover_mutex;
  std::vector<TestSequence> handover;

  std::vector<std::thread> threads;
  for (int i = 0; i < kOpeners; ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<uint32_t>(i));
      while (!done) {
        TestSequence sequence = open_random(cache, random);
        const std::lock_guard held(handover_mutex);
        // Some are given up before any step.
        if (random() % 2 == 0 && handover.size() < 4) handover.push_back(std::move(sequence));
      }
    });
  }
  threads.emplace_back([&] {
    while (!done) {
      const Status status = cache.check();
      EXPECT_TRUE(status.ok()) << status.error().message;
      const KvStats stats = cache.stats();
      EXPECT_EQ(stats.capacity_blocks,
                stats.free_blocks + stats.used_blocks + stats.cached_blocks + stats.pinned_blocks);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });

  // The steps.
  std::mt19937 random(99);
  int finished = 0;
  for (int step = 0; step < 100000 && finished < 400; ++step) {
    std::vector<TestSequence> batch;
    {
      const std::lock_guard held(handover_mutex);
      batch.swap(handover);
    }
    for (TestSequence& sequence : batch) {
      const Tokens prompt = random_prompt(random);
      if (!sequence.append(prompt, random() % 4 != 0).ok()) continue;
      EXPECT_EQ(sequence.first_wrong(), -1);
      if (auto fork = sequence.kv.fork(); fork.ok() && random() % 2 == 0) fork->close(KvTail::kKeep);
      sequence.kv.close(random() % 3 == 0 ? KvTail::kDrop : KvTail::kKeep);
      ++finished;
    }
    if (random() % 50 == 0) cache.drop_cached();
    std::this_thread::yield();
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  handover.clear();
  EXPECT_GT(finished, 0);

  const Status status = cache.check();
  EXPECT_TRUE(status.ok()) << status.error().message;
  const KvStats stats = cache.stats();
  EXPECT_EQ(stats.sequences, 0);
  EXPECT_EQ(stats.used_blocks, 0);
  EXPECT_GT(stats.counters.hit_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(Shards, KvCacheThreads, testing::Values(1, 4),
                         [](const auto& shards) { return std::to_string(shards.param); });

// Blocks move between shards under pressure; not one may get lost or stay out of reach.
TEST(KvCacheThreadsPressure, EveryBlockCanBeHad) {
  auto made = KvCache::create(test_options(64, 8));
  KvCache& cache = **made;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 150; ++round) {
        // Never more than 4 x 16 blocks at once, so that none may fail.
        const Tokens text = iota_tokens(16 * kTilePositions, 100000 * i + round);
        const KvPrefix prefix = cache.announce("", "", text);
        SequenceKv sequence = cache.open(prefix, {});
        EXPECT_TRUE(sequence.reserve(static_cast<int>(text.size())).ok());
        sequence.commit(text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Status status = cache.check();
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(cache.stats().cached_blocks, 64);
}

}  // namespace
}  // namespace dspark
