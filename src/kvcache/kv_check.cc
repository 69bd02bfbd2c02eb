// The self-check of kv_cache.h and kv_shard.h, with all locks held.
#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "kvcache/kv_cache.h"
#include "kvcache/kv_memory.h"
#include "kvcache/kv_shard.h"

namespace dspark {
namespace {

template <class... Args>
Error broken(fmt::format_string<Args...> format, Args&&... args) {
  return Error{ErrorCode::kInternal, "KV cache: " + fmt::format(format, std::forward<Args>(args)...)};
}

}  // namespace

Status KvShard::check_cached() const {
  const KvBlock* older = nullptr;
  int64_t count = 0;
  for (const KvBlock* block = oldest_; block != nullptr; block = block->newer) {
    if (!block->is_cached() || block->shard != number_) return broken("block {} is listed as cached", block->id);
    if (block->older != older) return broken("block {} has a wrong neighbour in the eviction order", block->id);
    if (older != nullptr && older->stamp >= block->stamp) return broken("block {} is out of order", block->id);
    if (block->parent != nullptr && block->parent->is_cached() && block->parent->stamp < block->stamp) {
      return broken("block {} would be evicted after its parent {}", block->id, block->parent->id);
    }
    older = block;
    ++count;
  }
  if (newest_ != older) return broken("the eviction order of shard {} ends elsewhere", number_);
  if (count != cached_estimate()) return broken("{} cached blocks, {} counted", count, cached_estimate());
  if (oldest_estimate() != (oldest_ == nullptr ? kNoStamp : oldest_->stamp)) {
    return broken("shard {} announces a wrong oldest block", number_);
  }
  return Ok{};
}

Status KvShard::check_siblings(const KvSiblings& siblings, const Sha256Digest& root, const KvBlock* parent,
                               int64_t* visited) const {
  const KvBlock* before = nullptr;
  for (const KvBlock* block : siblings.blocks()) {
    if (block->state != KvBlockState::kIndexed || block->shard != number_ || block->parent != parent ||
        block->root != root) {
      return broken("block {} stands in the wrong place", block->id);
    }
    if (before != nullptr && !std::ranges::lexicographical_compare(before->text(), block->text())) {
      return broken("blocks {} and {} are not in the order of their tokens", before->id, block->id);
    }
    if (parent != nullptr && block->refs > parent->refs) {
      return broken("block {} has {} holders, its parent {} has {}", block->id, block->refs, parent->id, parent->refs);
    }
    if (block->is_whole()) {
      const auto found = index_.find(block->digest);
      if (found == index_.end() || found->second != block) return broken("block {} is not in the index", block->id);
    } else if (!block->children.empty()) {
      return broken("block {} is partly filled and has children", block->id);
    }
    before = block;
    ++*visited;
    DSPARK_RETURN_IF_ERROR(check_siblings(block->children, root, block, visited));
  }
  return Ok{};
}

Status KvShard::check(const Expected& expected) const {
  for (const KvBlock* block : free_) {
    if (block->state != KvBlockState::kFree || block->shard != number_) {
      return broken("block {} is listed as free", block->id);
    }
  }
  const auto listed = static_cast<int64_t>(free_.size());
  if (listed != expected.free || listed != free_estimate()) {
    return broken("{} free blocks in shard {}, {} listed, {} counted", expected.free, number_, listed, free_estimate());
  }
  if (expected.cached != cached_estimate()) {
    return broken("{} cached blocks in shard {}, {} counted", expected.cached, number_, cached_estimate());
  }
  DSPARK_RETURN_IF_ERROR(check_cached());
  int64_t visited = 0;
  for (const auto& [root, siblings] : roots_) {
    if (siblings.empty()) return broken("shard {} keeps an empty root", number_);
    DSPARK_RETURN_IF_ERROR(check_siblings(siblings, root, nullptr, &visited));
  }
  if (visited != expected.indexed || visited != indexed_count_) {
    return broken("{} indexed blocks in shard {}, {} reachable, {} counted", expected.indexed, number_, visited,
                  indexed_count_);
  }
  const auto whole = std::ranges::count_if(index_, [&](const auto& entry) {
    return entry.second->state == KvBlockState::kIndexed && entry.second->shard == number_ && entry.second->is_whole();
  });
  if (whole != static_cast<int64_t>(index_.size())) return broken("the index of shard {} holds other blocks", number_);
  return Ok{};
}

Status KvCache::check_block(const KvBlock& block) const {
  const int size = block.size();
  if (size < 0 || size > kTilePositions) return broken("block {} holds {} tokens", block.id, size);
  const bool may_grow = block.state == KvBlockState::kIndexed || block.state == KvBlockState::kDetached;
  if (block.growing ? !may_grow || block.refs < 1 || block.is_whole() || block.grown < size : block.grown != 0) {
    return broken("block {} of {} tokens with {} holders grows to {}", block.id, size, block.refs, block.grown.load());
  }
  switch (block.state) {
    case KvBlockState::kFree:
      if (block.refs != 0 || size != 0 || block.pinned) return broken("block {} is free and held", block.id);
      break;
    case KvBlockState::kPrivate:
      if (block.refs != 1 || block.pinned) return broken("block {} is private with {} holders", block.id, block.refs);
      break;
    case KvBlockState::kIndexed:
      if (block.refs < 0 || size == 0) return broken("block {} is indexed with {} tokens", block.id, size);
      if (block.draft_count > size) return broken("block {} is drafted beyond its {} tokens", block.id, size);
      break;
    case KvBlockState::kDetached:
      if (block.refs < 1) return broken("block {} is detached and lost", block.id);
  }
  if (block.state != KvBlockState::kIndexed && !block.children.empty()) {
    return broken("block {} has children and cannot be found", block.id);
  }
  return Ok{};
}

// With the locks held: each block's holders are exactly these sequences.
Status KvCache::check_sequences(std::span<const SequenceKv* const> sequences) const {
  std::unordered_map<const KvBlock*, int> holders;
  for (const SequenceKv* sequence : sequences) {
    const auto& blocks = sequence->blocks_;
    if (sequence->cache_ != this || sequence->length_ > sequence->reserved() ||
        sequence->draft_length_ > sequence->length_ || sequence->indexed_ > sequence->length_ / kTilePositions) {
      return broken("a sequence of {} positions has {} reserved, {} drafted, {} blocks indexed", sequence->length_,
                    sequence->reserved(), sequence->draft_length_, sequence->indexed_);
    }
    for (int i = 0; i < static_cast<int>(blocks.size()); ++i) {
      ++holders[blocks[i]];
      const int size = std::clamp(sequence->length_ - i * kTilePositions, 0, kTilePositions);
      const bool indexed = i < sequence->indexed_;
      const bool grows = sequence->grows_ && i == sequence->indexed_;
      if (blocks[i]->written() != size || sequence->table_[i] != blocks[i]->data ||
          (grows ? !blocks[i]->growing
                 : blocks[i]->state != (indexed ? KvBlockState::kIndexed : KvBlockState::kPrivate)) ||
          (indexed && blocks[i]->parent != (i == 0 ? nullptr : blocks[i - 1]))) {
        return broken("block {} does not fit as number {} of a sequence of {} positions", blocks[i]->id, i,
                      sequence->length_);
      }
    }
  }
  for (int64_t id = 0; id < memory_->grown(); ++id) {
    const KvBlock& block = memory_->block(id);
    const auto found = holders.find(&block);
    const int held = found == holders.end() ? 0 : found->second;
    if (block.refs != held) return broken("block {} has {} holders, {} hold it", block.id, block.refs, held);
  }
  return Ok{};
}

Status KvCache::check(std::span<const SequenceKv* const> sequences) const {
  const auto held = lock_all();
  std::vector<KvShard::Expected> expected(shards_.size());
  int64_t pinned = 0;
  for (int64_t id = 0; id < memory_->grown(); ++id) {
    const KvBlock& block = memory_->block(id);
    DSPARK_RETURN_IF_ERROR(check_block(block));
    expected[block.shard].free += block.state == KvBlockState::kFree;
    expected[block.shard].indexed += block.state == KvBlockState::kIndexed;
    expected[block.shard].cached += block.is_cached();
    pinned += block.pinned;
  }
  if (pinned != shared_->pinned) return broken("{} pinned blocks, {} counted", pinned, shared_->pinned.load());
  for (size_t i = 0; i < shards_.size(); ++i) DSPARK_RETURN_IF_ERROR(shards_[i]->check(expected[i]));
  if (static_cast<int64_t>(sequences.size()) == sequences_) DSPARK_RETURN_IF_ERROR(check_sequences(sequences));
  return Ok{};
}

}  // namespace dspark
