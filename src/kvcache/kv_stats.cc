// See kv_stats.h.
#include "kvcache/kv_stats.h"

namespace dspark {

KvCounters& KvCounters::operator+=(const KvCounters& other) {
  block_lookups += other.block_lookups;
  block_hits += other.block_hits;
  conflicts += other.conflicts;
  prompt_tokens += other.prompt_tokens;
  hit_tokens += other.hit_tokens;
  copied_tokens += other.copied_tokens;
  evictions += other.evictions;
  hash_collisions += other.hash_collisions;
  duplicates += other.duplicates;
  lock_waits += other.lock_waits;
  lock_wait_seconds += other.lock_wait_seconds;
  return *this;
}

}  // namespace dspark
