// KvCache: the KV memory of all sequences in blocks of 128 positions, and the index that finds those of an equal
// prefix again (docs/kv-cache.md). Sequences hold blocks through a SequenceKv; what they have written stays cached
// after them until the memory is needed.
//
// Threads: announce, cached, open, stats and check from any thread; a KvPrefix and a SequenceKv belong to one thread
// at a time, and SequenceKv's calls after open to the step thread. The cache outlives both.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "kernels/kv_layout.h"
#include "kvcache/kv_identity.h"
#include "kvcache/kv_stats.h"

namespace dspark {

class KvCache;
class KvMemory;
class KvShard;
struct KvBlock;
struct KvShared;

struct KvCacheOptions {
  std::vector<KvLayout> layers;             // the target's, one tile of each behind the other in a block
  std::vector<KvLayout> draft_layers = {};  // the drafter's, behind them
  int64_t memory_bytes = 0;                 // at most, all blocks together; at least one block
  double prealloc_ratio = 0.0;              // of it, taken from the system and touched at once; the rest on demand
  int shards = 1;                           // 1 to kMaxKvShards
  KvRootKey root;
  Sha256Digest drafter = {};  // the digest of the drafter whose KV is written
  KvBlockDigest block_digest = kv_block_digest;
};

inline constexpr int kMaxKvShards = 64;
// The largest part of the blocks that may be pinned, so that requests can still run.
inline constexpr double kMaxPinnedShare = 0.5;

// A prompt's identity, computed once, outside the step: while it lives, the cache knows that a request with this prefix
// is queued or running. Move-only.
class KvPrefix {
 public:
  KvPrefix() = default;
  KvPrefix(KvPrefix&& other) noexcept { swap(other); }
  KvPrefix& operator=(KvPrefix&& other) noexcept {
    KvPrefix(std::move(other)).swap(*this);
    return *this;
  }
  ~KvPrefix();

  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  friend class KvCache;
  void swap(KvPrefix& other) noexcept;

  KvCache* cache_ = nullptr;
  Sha256Digest root_ = {};
  std::vector<int32_t> tokens_;
  std::vector<Sha256Digest> digests_;  // of each whole block
  int shard_ = 0;
};

struct KvOpenOptions {
  int max_cached = 0;    // positions that may come from the cache: at most the prompt's; one fewer to get its logits
  bool drafts = false;   // needs the drafter's KV as well: blocks without it, or of another drafter, are misses
  bool resumed = false;  // after a preemption: no prompt of its own in the statistics
};

// What becomes of a closed sequence's last, partly filled block. Whole blocks stay cached in any case.
enum class KvTail { kDrop, kKeep };

// The KV of one sequence: positions [0, length()) are committed, behind them is reserved room. Move-only; destroyed
// open, it closes with KvTail::kDrop.
class SequenceKv {
 public:
  SequenceKv() = default;
  SequenceKv(SequenceKv&& other) noexcept { swap(other); }
  SequenceKv& operator=(SequenceKv&& other) noexcept {
    SequenceKv(std::move(other)).swap(*this);
    return *this;
  }
  ~SequenceKv() { close(KvTail::kDrop); }

  bool is_open() const { return cache_ != nullptr; }
  // Committed positions; right after open, those that came from the cache.
  int length() const { return length_; }
  // Of the leading positions, those whose drafter's KV is there, too.
  int draft_length() const { return draft_length_; }
  // Positions that the table has room for.
  int reserved() const { return static_cast<int>(table_.size()) * kTilePositions; }
  // One block for each 128 positions, as model::forward wants it. Valid until the next call that is not const. Only
  // positions from length() on may be written.
  std::span<uint8_t* const> table() const { return table_; }

  // Room for `positions` more behind length(). Evicts what was used longest ago; kExhausted if that is not enough, and
  // then nothing has changed but what was evicted.
  Status reserve(int positions);

  // The positions from length() on now hold these tokens, which must have been reserved; with_draft: the drafter's KV
  // of them has been written, too. Whole blocks become reachable for others.
  void commit(std::span<const int32_t> tokens, bool with_draft = false);

  // Forgets the positions from `length` on and gives back blocks that are no longer needed, reserved ones included.
  // A shared block that would be written again is copied first; kExhausted if there is no memory for the copy, and
  // then nothing has changed. Drafts that were rejected need no call: they were never committed.
  Status truncate(int length);

  // A second sequence with the same positions: whole blocks are shared, the tail is copied. kExhausted as reserve.
  Result<SequenceKv> fork();

  // Gives everything back. Does nothing if closed.
  void close(KvTail tail);

  // Closes, tail kept, and keeps all of its blocks from ever being evicted. kExhausted where more than kMaxPinnedShare
  // of the memory would be pinned; then it has been closed without.
  Status close_pinned();

 private:
  friend class KvCache;
  void swap(SequenceKv& other) noexcept;
  void add_block(KvBlock* block);
  void add_run(KvBlock* block, int tokens, int draft_tokens);
  void publish_block(int index);
  void drop_blocks_from(size_t first);
  void finish(bool keep_tail, bool pin);

  KvCache* cache_ = nullptr;
  Sha256Digest root_ = {};
  int home_ = 0;  // the shard whose free blocks are taken first
  std::vector<KvBlock*> blocks_;
  std::vector<uint8_t*> table_;
  int length_ = 0;
  int draft_length_ = 0;
  int indexed_ = 0;  // leading whole blocks that the index knows
  // The block behind them is a cached tail that nobody else held: it is gone on with in place (KvBlock::growing).
  bool grows_ = false;
};

class KvCache {
 public:
  // kInvalidArgument for memory below one block or out-of-range values; kExhausted if the machine has less memory than
  // is to be taken at once.
  static Result<std::unique_ptr<KvCache>> create(KvCacheOptions options);
  ~KvCache();
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  // The tenant is the server's own knowledge; the salt is the caller's, "" for none. Nothing is shared between
  // different pairs of them.
  KvPrefix announce(std::string_view tenant, std::string_view salt, std::vector<int32_t> tokens);

  // How many positions open() would get now. Takes and counts nothing.
  int cached(const KvPrefix& prefix, const KvOpenOptions& options) const;

  // The longest cached prefix: whole blocks are shared; a partly filled one that matches to its end and that nobody
  // holds is gone on with; else the longest run of tokens inside the next block, whole or partly filled, is copied, if
  // there is a block for the copy.
  SequenceKv open(const KvPrefix& prefix, const KvOpenOptions& options);

  // From now on the drafter's KV is that of another drafter: of `open`, which must be all open sequences, nothing is
  // there yet. On the step thread, between steps, while no other thread is in open().
  void set_drafter(const Sha256Digest& digest, std::span<SequenceKv* const> open = {});

  // Evicts everything that nobody holds and that is not pinned; returns how many blocks.
  int64_t drop_cached();

  // Moves one block into a free place below it, or drops one cached tail that is too short to keep; false if nothing is
  // left to do, and then free memory above all blocks has gone back to the system. Does nothing while a sequence is
  // open. On the step thread.
  bool compact_step();

  int64_t block_bytes() const;
  int64_t draft_offset() const;  // of the drafter's KV in a block, in bytes
  int64_t capacity_blocks() const;
  // What reserve() could get now: free or cached. Cheap; takes no lock.
  int64_t available_blocks() const;

  // Consistent in itself: stops every other use of the cache for a moment.
  KvStats stats() const;

  // Walks everything: each block is free, in use, cached or pinned, exactly once, and index, lists, references and
  // counters agree. If `sequences` are all open ones, each block is held as often as they hold it, and their tables
  // and lengths fit. kInternal with the first thing found wrong.
  Status check(std::span<const SequenceKv* const> sequences = {}) const;

 private:
  friend class KvPrefix;
  friend class SequenceKv;
  struct Source;
  explicit KvCache(KvCacheOptions options);

  void balance_free_blocks();
  int shard_number(const Sha256Digest& digest) const;
  // A private block, held once; nullptr if all others are in use or pinned.
  KvBlock* acquire(int home);
  // A private block with the first `count` positions of another. The step thread.
  Result<KvBlock*> copy_of(const KvBlock& from, int count, int home);
  std::vector<std::unique_lock<std::mutex>> lock_all() const;

  std::vector<KvBlock*> match(const KvShard& shard, const KvPrefix& prefix, const KvOpenOptions& options,
                              int64_t* collisions) const;
  Source hold_match(const KvPrefix& prefix, const KvOpenOptions& options, SequenceKv& sequence);
  void look_in_other_shards(const KvPrefix& prefix, const KvOpenOptions& options, Source& best);
  void copy_source(const Source& source, bool counts, SequenceKv& sequence);
  void copy_positions(const KvBlock& from, KvBlock& to, int count, int draft_count) const;
  Status check_block(const KvBlock& block) const;
  Status check_sequences(std::span<const SequenceKv* const> sequences) const;

  const KvCacheOptions options_;
  std::unique_ptr<KvShared> shared_;
  std::unique_ptr<KvMemory> memory_;
  std::vector<std::unique_ptr<KvShard>> shards_;
  std::atomic<int64_t> sequences_ = 0;
};

}  // namespace dspark
