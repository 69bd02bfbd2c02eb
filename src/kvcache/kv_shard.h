// KvShard: a part of the cache with its own lock: free blocks, the index of published ones, and the order in which
// those that nobody holds are evicted. Any thread, with lock() held for every call but the estimates.
//
// A block's holders hold all blocks before it, and give the deepest back first. So a cached block always follows its
// cached children in the eviction order, and the first of that order has no children.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "kvcache/kv_block.h"
#include "kvcache/kv_copy.h"
#include "kvcache/kv_stats.h"

namespace dspark {

// What all shards share.
struct KvShared {
  KvBlockLayout layout;
  Sha256Digest drafter;             // changes under all locks
  std::atomic<uint64_t> clock = 1;  // stamps of the eviction order, over all shards
  std::atomic<int64_t> pinned = 0;  // blocks
};

// Where a block stands: behind its parent, or first behind a root.
struct KvPlace {
  const Sha256Digest& root;
  KvBlock* parent = nullptr;
};

struct KvDigestHash {
  size_t operator()(const Sha256Digest& digest) const;
};

class KvShard {
 public:
  KvShard(int number, KvShared& shared) : number_(number), shared_(shared) {}

  // Waits are counted.
  std::unique_lock<std::mutex> lock();

  // Free blocks. Taken ones are private, held once, and empty; the lowest address first.
  KvBlock* take_free();
  void give_free(KvBlock* block);

  // The whole block at `place` that holds `tokens`, or nullptr. *collision: another one has its digest.
  KvBlock* find(const KvPlace& place, const Sha256Digest& digest, std::span<const int32_t> tokens,
                bool* collision) const;
  // The child of `place` that shares the longest run with `tokens`; with `drafts`, as far as the drafter's KV goes.
  KvSiblings::Run longest_run(const KvPlace& place, std::span<const int32_t> tokens, bool drafts) const;

  void hold(KvBlock* block);
  // One holder less. Without any, a private or detached block is free, an indexed one cached or pinned.
  void release(KvBlock* block);

  // A partly filled block that nobody holds is held from now on by a sequence that writes behind its text; false, and
  // nothing done, for all others.
  bool grow(KvBlock* block);
  // It is no longer written to, and what was written behind its text is lost. Its holder still holds it.
  void stop_growing(KvBlock* block);

  // Makes a whole block, private or growing and held by the caller, reachable under `digest`. Returns the block that
  // the caller holds from now on: the same, or an equal one that was there before. nullptr if the digest belongs to
  // other tokens: then the block stays what it was.
  KvBlock* publish(const KvPlace& place, KvBlock* block, const Sha256Digest& digest);
  // The same for a partly filled block that nobody will write to any more; never nullptr.
  KvBlock* publish_tail(const KvPlace& place, KvBlock* block);

  void pin(KvBlock* block);

  // The block that was cached longest ago, no longer reachable, private, held once and empty. nullptr if none is
  // cached.
  KvBlock* evict();

  // For compaction. `block` is free and leaves the free list, private and empty; `block` is cached and goes; `to`,
  // private with the contents of `from`, takes its place, which nobody holds, and `from` is free.
  void remove_free(KvBlock* block);
  void drop(KvBlock* block);
  void replace(KvBlock* from, KvBlock* to);

  // Prefixes of queued and running requests.
  void announce(std::span<const Sha256Digest> digests);
  void retract(std::span<const Sha256Digest> digests);
  // Was it evicted while announced, and has not come back since?
  bool was_evicted(const Sha256Digest& digest) const { return evicted_.contains(digest); }

  // Without the lock: right when nobody else is at work.
  int64_t free_estimate() const { return free_count_.load(std::memory_order_relaxed); }
  int64_t cached_estimate() const { return cached_count_.load(std::memory_order_relaxed); }
  // The stamp of the block that evict would take.
  uint64_t oldest_estimate() const { return oldest_stamp_.load(std::memory_order_relaxed); }

  KvShardStats stats() const;
  // With all locks held: lists, index, links and counts agree with each other and with the numbers of blocks that are
  // said to be here.
  struct Expected {
    int64_t free = 0, indexed = 0, cached = 0;
  };
  Status check(const Expected& expected) const;

  static constexpr uint64_t kNoStamp = std::numeric_limits<uint64_t>::max();

  KvCounters counters;

 private:
  static constexpr size_t kMaxEvictedRecords = 4096;

  KvSiblings* siblings_at(const KvPlace& place);
  const KvSiblings* siblings_at(const KvPlace& place) const;
  void link(const KvPlace& place, KvBlock* block);
  void unlink(KvBlock* block);
  void settle(KvBlock* block);
  KvBlock* exchange(KvBlock* block, KvBlock* known);
  void supersede_prefix_of(const KvPlace& place, const KvBlock* block);
  void append_cached(KvBlock* block);
  void remove_cached(KvBlock* block);
  void merge_draft(const KvBlock& from, KvBlock& to);
  void record_eviction(const Sha256Digest& digest);
  Status check_cached() const;
  Status check_siblings(const KvSiblings& siblings, const Sha256Digest& root, const KvBlock* parent,
                        int64_t* visited) const;

  const int number_;
  KvShared& shared_;
  std::mutex mutex_;
  std::vector<KvBlock*> free_;                                        // a heap by address
  std::unordered_map<Sha256Digest, KvBlock*, KvDigestHash> index_;    // whole blocks
  std::unordered_map<Sha256Digest, KvSiblings, KvDigestHash> roots_;  // first blocks, whole or not
  int64_t indexed_count_ = 0;
  KvBlock* oldest_ = nullptr;
  KvBlock* newest_ = nullptr;
  std::unordered_map<Sha256Digest, int, KvDigestHash> announced_;
  std::unordered_set<Sha256Digest, KvDigestHash> evicted_;
  std::deque<Sha256Digest> evicted_order_;
  std::atomic<int64_t> free_count_ = 0;
  std::atomic<int64_t> cached_count_ = 0;
  std::atomic<uint64_t> oldest_stamp_ = kNoStamp;
};

}  // namespace dspark
