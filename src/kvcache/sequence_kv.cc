// SequenceKv of kv_cache.h: what the step loop does with the blocks of one sequence. The step thread, but for the
// closing of one that was opened elsewhere and never handed over.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kvcache/kv_cache.h"
#include "kvcache/kv_shard.h"

namespace dspark {
namespace {

int blocks_for(int positions) { return (positions + kTilePositions - 1) / kTilePositions; }

}  // namespace

void SequenceKv::swap(SequenceKv& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(root_, other.root_);
  std::swap(home_, other.home_);
  blocks_.swap(other.blocks_);
  table_.swap(other.table_);
  std::swap(length_, other.length_);
  std::swap(draft_length_, other.draft_length_);
  std::swap(indexed_, other.indexed_);
  std::swap(grows_, other.grows_);
}

void SequenceKv::add_block(KvBlock* block) {
  blocks_.push_back(block);
  table_.push_back(block->data);
}

// A block that holds the next `tokens` of them already.
void SequenceKv::add_run(KvBlock* block, int tokens, int draft_tokens) {
  if (draft_length_ == length_) draft_length_ += draft_tokens;
  length_ += tokens;
  add_block(block);
}

Status SequenceKv::reserve(int positions) {
  DSPARK_CHECK(is_open() && positions >= 0, "reserve {} positions of a sequence of {}", positions, length_);
  const size_t before = blocks_.size();
  const size_t needed = static_cast<size_t>(blocks_for(length_ + positions));
  while (blocks_.size() < needed) {
    KvBlock* block = cache_->acquire(home_);
    if (block == nullptr) {
      drop_blocks_from(before);
      return make_error(ErrorCode::kExhausted,
                        "{} more positions need {} KV blocks of {} bytes, and all {} are in use or pinned; raise "
                        "--kv-memory or run fewer requests at once",
                        positions, needed - before, cache_->block_bytes(), cache_->capacity_blocks());
    }
    add_block(block);
  }
  return Ok{};
}

// The deepest first: see kv_shard.h.
void SequenceKv::drop_blocks_from(size_t first) {
  if (first >= blocks_.size()) return;
  KvShard& shard = *cache_->shards_[indexed_ > 0 ? blocks_.front()->shard : home_];
  const auto held = shard.lock();
  if (grows_ && first <= static_cast<size_t>(indexed_)) {
    shard.stop_growing(blocks_[indexed_]);
    grows_ = false;
  }
  while (blocks_.size() > first) {
    shard.release(blocks_.back());
    blocks_.pop_back();
    table_.pop_back();
  }
  indexed_ = std::min(indexed_, static_cast<int>(first));
}

void SequenceKv::commit(std::span<const int32_t> tokens, bool with_draft) {
  DSPARK_CHECK(is_open() && length_ + static_cast<int64_t>(tokens.size()) <= reserved(),
               "commit of {} tokens behind {} of {} reserved positions", tokens.size(), length_, reserved());
  const Sha256Digest& drafter = cache_->shared_->drafter;
  while (!tokens.empty()) {
    const int index = length_ / kTilePositions;
    const int slot = length_ % kTilePositions;
    const int count = std::min(static_cast<int>(tokens.size()), kTilePositions - slot);
    KvBlock& block = *blocks_[index];
    block.write(slot, tokens.first(static_cast<size_t>(count)), with_draft ? &drafter : nullptr);
    if (draft_length_ == length_) draft_length_ += std::max(0, block.written_draft_positions(drafter) - slot);
    length_ += count;
    tokens = tokens.subspan(count);
    if (slot + count == kTilePositions) publish_block(index);
  }
}

// After a collision neither the block nor those behind it can be found by others.
void SequenceKv::publish_block(int index) {
  if (indexed_ != index) return;
  KvBlock* parent = index == 0 ? nullptr : blocks_[index - 1];
  KvBlock* block = blocks_[index];
  const Sha256Digest digest =
      cache_->options_.block_digest(parent == nullptr ? root_ : parent->digest, block->written_text());
  KvShard& shard = *cache_->shards_[parent == nullptr ? cache_->shard_number(digest) : parent->shard];
  const auto held = shard.lock();
  KvBlock* published = shard.publish({root_, parent}, block, digest);
  if (published == nullptr) return;
  grows_ = false;
  blocks_[index] = published;
  table_[index] = published->data;
  ++indexed_;
}

Status SequenceKv::truncate(int length) {
  DSPARK_CHECK(is_open() && length >= 0 && length <= length_, "truncate to {} of {}", length, length_);
  const int tail = length / kTilePositions;
  const int slot = length % kTilePositions;
  KvBlock* copy = nullptr;
  if (slot > 0 && (tail < indexed_ || (grows_ && tail == indexed_ && slot < blocks_[tail]->size()))) {
    DSPARK_TRY(copy, cache_->copy_of(*blocks_[tail], slot, home_));
  }
  drop_blocks_from(static_cast<size_t>(copy != nullptr ? tail : blocks_for(length)));
  if (copy != nullptr) {
    add_block(copy);
  } else if (slot > 0) {
    blocks_[tail]->truncate(slot);
  }
  length_ = length;
  draft_length_ = std::min(draft_length_, length);
  return Ok{};
}

Result<SequenceKv> SequenceKv::fork() {
  DSPARK_CHECK(is_open(), "fork of a closed sequence");
  SequenceKv out;
  out.cache_ = cache_;
  out.root_ = root_;
  out.home_ = home_;
  cache_->sequences_.fetch_add(1);
  if (indexed_ > 0) {
    KvShard& shard = *cache_->shards_[blocks_.front()->shard];
    const auto held = shard.lock();
    for (int i = 0; i < indexed_; ++i) {
      shard.hold(blocks_[i]);
      out.add_block(blocks_[i]);
    }
    out.indexed_ = indexed_;
  }
  // The tail; and whole blocks that a collision kept private.
  for (int i = indexed_; i < blocks_for(length_); ++i) {
    DSPARK_TRY(KvBlock * copy, cache_->copy_of(*blocks_[i], blocks_[i]->written(), home_));
    out.add_block(copy);
  }
  out.length_ = length_;
  out.draft_length_ = draft_length_;
  return out;
}

void SequenceKv::close(KvTail tail) {
  if (is_open()) finish(tail == KvTail::kKeep, false);
}

Status SequenceKv::close_pinned() {
  DSPARK_CHECK(is_open(), "pinning of a closed sequence");
  const int64_t capacity = cache_->capacity_blocks();
  const auto limit = static_cast<int64_t>(kMaxPinnedShare * static_cast<double>(capacity));
  const int64_t pinned = cache_->shared_->pinned.load();
  const int64_t more = std::ranges::count_if(std::span(blocks_).first(blocks_for(length_)),
                                             [](const KvBlock* block) { return !block->pinned; });
  const bool fits = pinned + more <= limit;
  finish(true, fits);
  if (fits) return Ok{};
  return make_error(ErrorCode::kExhausted,
                    "{} KV blocks are pinned and {} more would be, of {} at most {}; warm up less or raise --kv-memory",
                    pinned, more, capacity, limit);
}

void SequenceKv::finish(bool keep_tail, bool pin) {
  const int whole = length_ / kTilePositions;
  const bool keep = keep_tail && length_ % kTilePositions != 0 && indexed_ == whole;
  int number = home_;
  if (indexed_ > 0) {
    number = blocks_.front()->shard;
  } else if (keep) {
    number = cache_->shard_number(cache_->options_.block_digest(root_, blocks_.front()->written_text()));
  }
  {
    KvShard& shard = *cache_->shards_[number];
    const auto held = shard.lock();
    if (!keep && grows_) shard.stop_growing(blocks_[indexed_]);
    if (keep) {
      blocks_[whole] = shard.publish_tail({root_, whole == 0 ? nullptr : blocks_[whole - 1]}, blocks_[whole]);
    }
    for (int i = 0; pin && i < indexed_ + keep; ++i) shard.pin(blocks_[i]);
    for (size_t i = blocks_.size(); i-- > 0;) shard.release(blocks_[i]);
  }
  cache_->sequences_.fetch_sub(1);
  cache_ = nullptr;
  *this = SequenceKv();
}

}  // namespace dspark
