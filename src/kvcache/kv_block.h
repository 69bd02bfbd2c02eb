// KvBlock: what the cache knows about one block of KV memory. A private block belongs to the thread of the sequence
// that writes it; all others to whoever holds the lock of their shard. `state`, `refs` and `pinned` change only under
// the lock of some shard (or that of the memory, for a block's first use), so that all locks together freeze them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/sha256.h"
#include "kernels/kv_layout.h"

namespace dspark {

struct KvBlock;

// Children of one block (or of a root) in the lexicographic order of their tokens: the one that shares the longest run
// with a given list of tokens is next to where the list would stand.
class KvSiblings {
 public:
  struct Run {
    KvBlock* block = nullptr;
    int tokens = 0;
  };
  // The neighbours of `tokens`, each with its longest common run: `before` sorts below it.
  struct Neighbours {
    Run before, after;
  };
  Neighbours neighbours(std::span<const int32_t> tokens) const;

  void insert(KvBlock* block);
  void erase(KvBlock* block);
  bool empty() const { return blocks_.empty(); }
  std::span<KvBlock* const> blocks() const { return blocks_; }

 private:
  std::vector<KvBlock*>::const_iterator lower_bound(std::span<const int32_t> tokens) const;

  std::vector<KvBlock*> blocks_;
};

enum class KvBlockState : uint8_t {
  kFree,      // in a shard's free list
  kPrivate,   // one sequence writes it
  kIndexed,   // immutable and reachable by lookups: held, cached or pinned
  kDetached,  // superseded while a copy was being made from it; free when that is done
};

// A partly filled indexed block may be *growing*: one of its holders goes on writing behind its text. Everybody else
// sees the text as it was until the writer publishes the block again.
struct KvBlock {
  uint8_t* data = nullptr;
  int64_t id = 0;  // in the order of addresses
  KvBlockState state = KvBlockState::kPrivate;
  bool pinned = false;
  int32_t refs = 0;                // sequences that hold it, and copies being made from it
  int32_t shard = 0;               // of the free list or the index
  std::atomic<int32_t> count = 0;  // tokens; atomic for statistics about private blocks
  std::array<int32_t, kTilePositions> tokens;

  // The drafter's KV is there for positions [0, draft_count) of the block, as this drafter writes it.
  int32_t draft_count = 0;
  Sha256Digest drafter = {};

  // While it grows: count and drafter's KV as they are for the writer. The flag changes under the shard's lock and by
  // the writer only, the rest is his alone.
  bool growing = false;
  std::atomic<int32_t> grown = 0;
  int32_t grown_draft_count = 0;
  Sha256Digest grown_drafter = {};

  // Indexed blocks only.
  Sha256Digest root = {};
  Sha256Digest digest = {};  // of a whole block
  KvBlock* parent = nullptr;
  KvSiblings children;

  // Cached blocks only: the shard's list from the one used longest ago, stamped in that order.
  KvBlock* older = nullptr;
  KvBlock* newer = nullptr;
  uint64_t stamp = 0;

  int size() const { return count.load(std::memory_order_relaxed); }
  void resize(int new_count) { count.store(new_count, std::memory_order_relaxed); }
  bool is_whole() const { return size() == kTilePositions; }
  bool is_cached() const { return state == KvBlockState::kIndexed && refs == 0 && !pinned; }
  std::span<const int32_t> text() const { return {tokens.data(), static_cast<size_t>(size())}; }
  int draft_positions(const Sha256Digest& current) const { return drafter == current ? draft_count : 0; }

  // As its writer sees it: the same, unless it grows. `written` also for statistics.
  int written() const { return std::max(size(), grown.load(std::memory_order_relaxed)); }
  std::span<const int32_t> written_text() const { return {tokens.data(), static_cast<size_t>(written())}; }
  int written_draft_positions(const Sha256Digest& current) const {
    return !growing ? draft_positions(current) : grown_drafter == current ? grown_draft_count : 0;
  }
  // Behind `slot` positions; with_drafter: the drafter's KV of them, too.
  void write(int slot, std::span<const int32_t> more, const Sha256Digest* with_drafter);
  // Forgets what stands behind `slot` positions: at least the text, if it grows.
  void truncate(int slot);
};

// Length of the longest common run at the start.
int common_run(std::span<const int32_t> a, std::span<const int32_t> b);

}  // namespace dspark
