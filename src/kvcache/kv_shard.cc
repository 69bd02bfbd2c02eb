// See kv_shard.h.
#include "kvcache/kv_shard.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace dspark {
namespace {

bool higher_address(const KvBlock* a, const KvBlock* b) { return a->id > b->id; }

// A private block without contents, held by whoever took it.
void make_private(KvBlock* block) {
  block->state = KvBlockState::kPrivate;
  block->refs = 1;
  block->resize(0);
  block->draft_count = 0;
  block->growing = false;
  block->grown = 0;
}

void add_to(std::atomic<int64_t>& estimate, int64_t change) {
  estimate.store(estimate.load(std::memory_order_relaxed) + change, std::memory_order_relaxed);
}

}  // namespace

size_t KvDigestHash::operator()(const Sha256Digest& digest) const {
  // Not the first word: that chose the shard.
  size_t word;
  std::memcpy(&word, digest.data() + sizeof word, sizeof word);
  return word;
}

std::unique_lock<std::mutex> KvShard::lock() {
  std::unique_lock held(mutex_, std::try_to_lock);
  if (!held.owns_lock()) {
    const auto start = std::chrono::steady_clock::now();
    held.lock();
    ++counters.lock_waits;
    counters.lock_wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return held;
}

KvBlock* KvShard::take_free() {
  if (free_.empty()) return nullptr;
  std::ranges::pop_heap(free_, higher_address);
  KvBlock* block = free_.back();
  free_.pop_back();
  add_to(free_count_, -1);
  make_private(block);
  return block;
}

void KvShard::give_free(KvBlock* block) {
  block->state = KvBlockState::kFree;
  block->refs = 0;
  block->resize(0);
  block->shard = number_;
  free_.push_back(block);
  std::ranges::push_heap(free_, higher_address);
  add_to(free_count_, 1);
}

KvBlock* KvShard::find(const KvPlace& place, const Sha256Digest& digest, std::span<const int32_t> tokens,
                       bool* collision) const {
  *collision = false;
  const auto found = index_.find(digest);
  if (found == index_.end()) return nullptr;
  KvBlock* block = found->second;
  if (block->parent == place.parent && block->root == place.root && std::ranges::equal(block->text(), tokens)) {
    return block;
  }
  *collision = true;
  return nullptr;
}

KvSiblings::Run KvShard::longest_run(const KvPlace& place, std::span<const int32_t> tokens, bool drafts) const {
  const KvSiblings* siblings = siblings_at(place);
  if (siblings == nullptr) return {};
  KvSiblings::Run best;
  const auto [before, after] = siblings->neighbours(tokens);
  for (KvSiblings::Run run : {before, after}) {
    if (drafts && run.block != nullptr) run.tokens = std::min(run.tokens, run.block->draft_positions(shared_.drafter));
    if (run.tokens > best.tokens) best = run;
  }
  return best;
}

void KvShard::hold(KvBlock* block) {
  if (block->is_cached()) remove_cached(block);
  ++block->refs;
}

void KvShard::release(KvBlock* block) {
  DSPARK_CHECK(block->refs > 0, "block {} is released by nobody", block->id);
  if (--block->refs > 0) return;
  if (block->state != KvBlockState::kIndexed) {
    give_free(block);
  } else if (!block->pinned) {
    append_cached(block);
  }
}

KvSiblings* KvShard::siblings_at(const KvPlace& place) {
  return const_cast<KvSiblings*>(std::as_const(*this).siblings_at(place));
}

const KvSiblings* KvShard::siblings_at(const KvPlace& place) const {
  if (place.parent != nullptr) return &place.parent->children;
  const auto found = roots_.find(place.root);
  return found == roots_.end() ? nullptr : &found->second;
}

void KvShard::link(const KvPlace& place, KvBlock* block) {
  block->state = KvBlockState::kIndexed;
  block->shard = number_;
  block->root = place.root;
  block->parent = place.parent;
  KvSiblings& siblings = place.parent != nullptr ? place.parent->children : roots_[place.root];
  siblings.insert(block);
  ++indexed_count_;
}

void KvShard::unlink(KvBlock* block) {
  DSPARK_CHECK(block->children.empty(), "block {} leaves the index before its children", block->id);
  if (block->is_whole()) index_.erase(block->digest);
  KvSiblings* siblings = siblings_at({block->root, block->parent});
  siblings->erase(block);
  if (block->parent == nullptr && siblings->empty()) roots_.erase(block->root);
  block->parent = nullptr;
  --indexed_count_;
}

// A partly filled sibling of which `block` is a longer version serves nothing any more. There is at most one but for
// pinned ones, and it sorts right before.
void KvShard::supersede_prefix_of(const KvPlace& place, const KvBlock* block) {
  const KvSiblings* siblings = siblings_at(place);
  if (siblings == nullptr) return;
  const KvSiblings::Run shorter = siblings->neighbours(block->text()).before;
  if (shorter.block == nullptr || shorter.tokens < shorter.block->size() || shorter.block->pinned) return;
  if (shorter.block->is_cached()) {
    remove_cached(shorter.block);
    unlink(shorter.block);
    give_free(shorter.block);
  } else {
    unlink(shorter.block);
    shorter.block->state = KvBlockState::kDetached;
  }
}

KvBlock* KvShard::publish(const KvPlace& place, KvBlock* block, const Sha256Digest& digest) {
  bool collision = false;
  if (KvBlock* known = find(place, digest, block->written_text(), &collision); known != nullptr) {
    ++counters.duplicates;
    return exchange(block, known);
  }
  if (collision) {
    ++counters.hash_collisions;
    return nullptr;
  }
  settle(block);
  block->digest = digest;
  index_.emplace(block->digest, block);
  evicted_.erase(block->digest);
  supersede_prefix_of(place, block);
  link(place, block);
  return block;
}

KvBlock* KvShard::publish_tail(const KvPlace& place, KvBlock* block) {
  if (const KvSiblings* siblings = siblings_at(place); siblings != nullptr) {
    const KvSiblings::Run next = siblings->neighbours(block->written_text()).after;
    if (next.block == block) {  // nothing was written
      stop_growing(block);
      return block;
    }
    if (next.block != nullptr && next.tokens == block->written()) return exchange(block, next.block);
  }
  settle(block);
  supersede_prefix_of(place, block);
  link(place, block);
  return block;
}

bool KvShard::grow(KvBlock* block) {
  if (!block->is_cached() || block->is_whole()) return false;
  hold(block);
  block->growing = true;
  block->grown = block->size();
  block->grown_draft_count = block->draft_count;
  block->grown_drafter = block->drafter;
  return true;
}

void KvShard::stop_growing(KvBlock* block) {
  block->growing = false;
  block->grown = 0;
}

// What was written behind the text of a growing block belongs to it. It leaves the index, where it stood by its text.
void KvShard::settle(KvBlock* block) {
  if (!block->growing) return;
  if (block->state == KvBlockState::kIndexed) unlink(block);
  if (const int drafted = block->written_draft_positions(shared_.drafter);
      drafted > block->draft_positions(shared_.drafter)) {
    block->draft_count = drafted;
    block->drafter = shared_.drafter;
  }
  block->resize(block->written());
  stop_growing(block);
}

// For `known`, which says the same or more. A growing block may be of use to others all the same.
KvBlock* KvShard::exchange(KvBlock* block, KvBlock* known) {
  merge_draft(*block, *known);
  hold(known);
  if (block->state == KvBlockState::kPrivate) {
    give_free(block);
    return known;
  }
  stop_growing(block);
  if (block->state == KvBlockState::kIndexed && !block->pinned) {
    unlink(block);
    block->state = KvBlockState::kDetached;
  }
  release(block);
  return known;
}

void KvShard::pin(KvBlock* block) {
  if (block->pinned) return;
  if (block->is_cached()) remove_cached(block);
  block->pinned = true;
  shared_.pinned.fetch_add(1, std::memory_order_relaxed);
}

KvBlock* KvShard::evict() {
  KvBlock* block = oldest_;
  if (block == nullptr) return nullptr;
  remove_cached(block);
  if (block->is_whole()) record_eviction(block->digest);
  unlink(block);
  make_private(block);
  ++counters.evictions;
  return block;
}

void KvShard::remove_free(KvBlock* block) {
  std::erase(free_, block);
  std::ranges::make_heap(free_, higher_address);
  add_to(free_count_, -1);
  make_private(block);
}

void KvShard::drop(KvBlock* block) {
  remove_cached(block);
  if (block->is_whole()) record_eviction(block->digest);
  unlink(block);
  give_free(block);
  ++counters.evictions;
}

void KvShard::replace(KvBlock* from, KvBlock* to) {
  to->state = KvBlockState::kIndexed;
  to->refs = 0;
  to->shard = number_;
  to->pinned = std::exchange(from->pinned, false);
  to->root = from->root;
  to->digest = from->digest;
  to->parent = std::exchange(from->parent, nullptr);
  KvSiblings* siblings = siblings_at({to->root, to->parent});
  siblings->erase(from);
  siblings->insert(to);
  to->children = std::exchange(from->children, {});
  for (KvBlock* child : to->children.blocks()) child->parent = to;
  if (to->is_whole()) index_[to->digest] = to;
  if (!to->pinned) {
    to->stamp = from->stamp;
    to->older = std::exchange(from->older, nullptr);
    to->newer = std::exchange(from->newer, nullptr);
    (to->older == nullptr ? oldest_ : to->older->newer) = to;
    (to->newer == nullptr ? newest_ : to->newer->older) = to;
  }
  give_free(from);
}

void KvShard::append_cached(KvBlock* block) {
  block->stamp = shared_.clock.fetch_add(1, std::memory_order_relaxed);
  block->older = newest_;
  block->newer = nullptr;
  if (newest_ == nullptr) {
    oldest_ = block;
    oldest_stamp_.store(block->stamp, std::memory_order_relaxed);
  } else {
    newest_->newer = block;
  }
  newest_ = block;
  add_to(cached_count_, 1);
}

void KvShard::remove_cached(KvBlock* block) {
  (block->older == nullptr ? oldest_ : block->older->newer) = block->newer;
  (block->newer == nullptr ? newest_ : block->newer->older) = block->older;
  block->older = block->newer = nullptr;
  oldest_stamp_.store(oldest_ == nullptr ? kNoStamp : oldest_->stamp, std::memory_order_relaxed);
  add_to(cached_count_, -1);
}

// The drafter's KV of positions that only `from` has. Others copy at most those that `to` has already.
void KvShard::merge_draft(const KvBlock& from, KvBlock& to) {
  const int has = to.draft_positions(shared_.drafter);
  const int gets = from.written_draft_positions(shared_.drafter);
  if (gets <= has) return;
  shared_.layout.copy_draft(from.data, to.data, has, gets);
  to.drafter = shared_.drafter;
  to.draft_count = gets;
}

void KvShard::announce(std::span<const Sha256Digest> digests) {
  for (const Sha256Digest& digest : digests) ++announced_[digest];
}

void KvShard::retract(std::span<const Sha256Digest> digests) {
  for (const Sha256Digest& digest : digests) {
    const auto found = announced_.find(digest);
    if (--found->second == 0) announced_.erase(found);
  }
}

void KvShard::record_eviction(const Sha256Digest& digest) {
  if (!announced_.contains(digest) || !evicted_.insert(digest).second) return;
  evicted_order_.push_back(digest);
  if (evicted_order_.size() > kMaxEvictedRecords) {
    evicted_.erase(evicted_order_.front());
    evicted_order_.pop_front();
  }
}

KvShardStats KvShard::stats() const { return {counters, free_estimate(), indexed_count_, cached_estimate()}; }

}  // namespace dspark
