// The numbers of a KvCache: for metrics, /debug/cache and `dspark cache-stats`. docs/kv-cache.md says what they mean.
// Plain data.
#pragma once

#include <cstdint>
#include <vector>

namespace dspark {

// Counted since the cache was made.
struct KvCounters {
  int64_t block_lookups = 0;  // whole blocks of opened prompts, as far as they were allowed to come from the cache
  int64_t block_hits = 0;     // of those, found
  int64_t conflicts = 0;      // of those, missed because evicted while a request with the same prefix was announced
  int64_t prompt_tokens = 0;  // of opened prompts; resumed sequences do not count
  int64_t hit_tokens = 0;     // of those, reused: whole blocks and copied runs
  int64_t copied_tokens = 0;  // of those, copied
  int64_t evictions = 0;
  int64_t hash_collisions = 0;  // equal digests of different tokens: never served
  int64_t duplicates = 0;       // blocks that two sequences computed at the same time; one of each was freed
  int64_t lock_waits = 0;       // a shard's lock was held by another thread
  double lock_wait_seconds = 0.0;

  KvCounters& operator+=(const KvCounters& other);
};

struct KvShardStats {
  KvCounters counters;
  int64_t free_blocks = 0;
  int64_t indexed_blocks = 0;  // reachable by a lookup: in use, cached or pinned
  int64_t cached_blocks = 0;
};

struct KvStats {
  int64_t block_bytes = 0;
  int64_t memory_bytes = 0;  // taken from the system so far

  // capacity = free + used + cached + pinned.
  int64_t capacity_blocks = 0;
  int64_t free_blocks = 0;    // holding nothing, those not yet taken from the system among them
  int64_t used_blocks = 0;    // held by a sequence
  int64_t cached_blocks = 0;  // held by nobody, reachable, may be evicted
  int64_t pinned_blocks = 0;  // held by nobody, reachable, never evicted
  int64_t sequences = 0;      // open ones

  // In positions. Slack: room behind the last token of a block, and blocks reserved but not yet written. Scatter: free
  // blocks below the highest one that holds something, so that memory cannot shrink.
  int64_t allocated_positions = 0;
  int64_t slack_positions = 0;
  int64_t scatter_positions = 0;

  KvCounters counters;  // of all shards
  std::vector<KvShardStats> shards;

  double slack_ratio() const { return ratio(slack_positions, allocated_positions); }
  double scatter_ratio() const { return ratio(scatter_positions, allocated_positions); }
  double fragmentation_ratio() const { return slack_ratio() + scatter_ratio(); }
  double block_hit_ratio() const { return ratio(counters.block_hits, counters.block_lookups); }
  double reuse_ratio() const { return ratio(counters.hit_tokens, counters.prompt_tokens); }
  double conflict_ratio() const { return ratio(counters.conflicts, counters.block_lookups); }
  // Of the capacity, what a new sequence could not have.
  double usage_ratio() const { return ratio(used_blocks + pinned_blocks, capacity_blocks); }

 private:
  static double ratio(int64_t part, int64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

}  // namespace dspark
