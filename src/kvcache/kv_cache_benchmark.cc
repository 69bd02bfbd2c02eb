// What shards of the KV cache buy and cost: threads that open, fill and close sequences, for each number of shards.
// Blocks are small, so that locks and lookups are measured and not the copying of KV. Built on request:
// ninja kv_cache_benchmark.
#include "kvcache/kv_cache.h"

#include <benchmark/benchmark.h>

#include <memory>
#include <random>
#include <vector>

namespace dspark {
namespace {

constexpr int kPrompts = 256;
constexpr int kPromptTokens = 1000;

struct Bench {
  std::unique_ptr<KvCache> cache;
  std::vector<std::vector<int32_t>> prompts;
};

std::unique_ptr<Bench> bench;

// `room` times the blocks of all prompts together.
void set_up(const benchmark::State& state, double room) {
  KvCacheOptions options;
  options.layers = {{.type = DType::kF16, .kv_heads = 1, .head_dim = 16}};
  const int64_t blocks = int64_t{kPrompts} * (kPromptTokens / kTilePositions + 1);
  options.memory_bytes = static_cast<int64_t>(room * static_cast<double>(blocks)) * options.layers[0].tile_bytes();
  options.prealloc_ratio = 1.0;
  options.shards = static_cast<int>(state.range(0));
  bench = std::make_unique<Bench>();
  bench->cache = std::move(KvCache::create(options).value());
  std::mt19937 random(1);
  for (int i = 0; i < kPrompts; ++i) {
    std::vector<int32_t>& prompt = bench->prompts.emplace_back();
    for (int k = 0; k < kPromptTokens; ++k) prompt.push_back(static_cast<int32_t>(random() % 50000));
  }
}

void set_up_short(const benchmark::State& state) { set_up(state, 0.5); }
// Every prompt is cached.
void set_up_filled(const benchmark::State& state) {
  set_up(state, 2.0);
  for (const std::vector<int32_t>& prompt : bench->prompts) {
    SequenceKv sequence = bench->cache->open(bench->cache->announce("tenant", "", prompt), {});
    if (sequence.reserve(kPromptTokens).ok()) sequence.commit(prompt);
    sequence.close(KvTail::kKeep);
  }
}
void tear_down(const benchmark::State&) { bench.reset(); }

// Threads stand for connections: prompts are hashed outside the lock, looked up, filled where they miss, and closed.
void serve(benchmark::State& state) {
  std::mt19937 random(static_cast<uint32_t>(state.thread_index()) + 7);
  for (auto _ : state) {
    const std::vector<int32_t>& prompt = bench->prompts[random() % kPrompts];
    const KvPrefix prefix = bench->cache->announce("tenant", "", prompt);
    SequenceKv sequence = bench->cache->open(prefix, {.max_cached = kPromptTokens - 1});
    const auto rest = std::span<const int32_t>(prompt).subspan(static_cast<size_t>(sequence.length()));
    if (sequence.reserve(static_cast<int>(rest.size())).ok()) sequence.commit(rest);
    sequence.close(KvTail::kKeep);
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    const KvStats stats = bench->cache->stats();
    state.counters["hit_%"] = 100.0 * stats.block_hit_ratio();
    state.counters["waits/open"] = static_cast<double>(stats.counters.lock_waits) /
                                   static_cast<double>(stats.counters.prompt_tokens / kPromptTokens);
  }
}

// The walk alone: a prompt of which everything is cached, without hashing it anew.
void look_up(benchmark::State& state) {
  std::mt19937 random(static_cast<uint32_t>(state.thread_index()) + 7);
  const std::vector<int32_t>& prompt = bench->prompts[random() % kPrompts];
  const KvPrefix prefix = bench->cache->announce("tenant", "", prompt);
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench->cache->cached(prefix, {.max_cached = kPromptTokens}));
  }
  state.SetItemsProcessed(state.iterations());
}

// A first block that nothing begins like: every shard is asked.
void miss(benchmark::State& state) {
  const std::vector<int32_t> prompt(kPromptTokens, -1 - state.thread_index());
  const KvPrefix prefix = bench->cache->announce("tenant", "", prompt);
  for (auto _ : state) {
    benchmark::DoNotOptimize(bench->cache->cached(prefix, {.max_cached = kPromptTokens}));
  }
  state.SetItemsProcessed(state.iterations());
}

void shards_and_threads(benchmark::internal::Benchmark* run) {
  run->ArgName("shards")->UseRealTime()->MinTime(0.3);
  for (const int shards : {1, 2, 4, 8}) run->Arg(shards);
  for (const int threads : {1, 2, 4, 8}) run->Threads(threads);
}

BENCHMARK(serve)->Name("serve/all_fits")->Setup(set_up_filled)->Teardown(tear_down)->Apply(shards_and_threads);
BENCHMARK(serve)->Name("serve/half_fits")->Setup(set_up_short)->Teardown(tear_down)->Apply(shards_and_threads);
BENCHMARK(look_up)->Setup(set_up_filled)->Teardown(tear_down)->Apply(shards_and_threads);
BENCHMARK(miss)->Setup(set_up_filled)->Teardown(tear_down)->Apply(shards_and_threads);

}  // namespace
}  // namespace dspark

BENCHMARK_MAIN();
