// Compaction of the KV memory (docs/kv-cache.md): cached blocks move down into the free places between others, a block
// at a time, and what then lies free above them goes back to the system. See kv_cache.h.
#include <algorithm>

#include "base/check.h"
#include "kvcache/kv_cache.h"
#include "kvcache/kv_memory.h"
#include "kvcache/kv_shard.h"

namespace dspark {
namespace {

// A tail of so few tokens is computed again sooner than its block is filled.
constexpr int kShortTail = kTilePositions / 4;

}  // namespace

bool KvCache::compact_step() {
  const auto held = lock_all();
  if (sequences_.load() > 0) return false;
  KvBlock* highest = nullptr;
  KvBlock* lowest_free = nullptr;
  for (int64_t id = 0; id < memory_->grown(); ++id) {
    KvBlock& block = memory_->block(id);
    if (block.state == KvBlockState::kFree) {
      if (lowest_free == nullptr) lowest_free = &block;
    } else if (block.is_cached() && block.size() < kShortTail) {
      shards_[block.shard]->drop(&block);
      return true;
    } else {
      highest = &block;
    }
  }
  if (highest == nullptr || lowest_free == nullptr || lowest_free->id > highest->id) {
    balance_free_blocks();
    memory_->release_above(highest == nullptr ? 0 : highest->id + 1);
    return false;
  }
  DSPARK_CHECK(highest->state == KvBlockState::kIndexed && highest->refs == 0,
               "block {} is in use while no sequence is open", highest->id);
  shards_[lowest_free->shard]->remove_free(lowest_free);
  const Sha256Digest drafter = highest->drafter;
  copy_positions(*highest, *lowest_free, highest->size(), highest->draft_count);
  lowest_free->drafter = drafter;
  shards_[highest->shard]->replace(highest, lowest_free);
  return true;
}

// So that each shard finds some without asking the others.
void KvCache::balance_free_blocks() {
  std::vector<KvBlock*> free;
  for (const auto& shard : shards_) {
    while (KvBlock* block = shard->take_free()) free.push_back(block);
  }
  std::ranges::sort(free, {}, &KvBlock::id);
  for (size_t i = 0; i < free.size(); ++i) shards_[i % shards_.size()]->give_free(free[i]);
}

}  // namespace dspark
