// See kv_cache.h. The calls of a SequenceKv are in sequence_kv.cc.
#include "kvcache/kv_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/machine_memory.h"
#include "kvcache/kv_memory.h"
#include "kvcache/kv_shard.h"

namespace dspark {
namespace {

std::span<const int32_t> block_tokens(std::span<const int32_t> tokens, size_t block) {
  return tokens.subspan(block * kTilePositions, kTilePositions);
}

// The tokens that may be reused out of block `index`.
std::span<const int32_t> run_tokens(std::span<const int32_t> tokens, int max_cached, size_t index) {
  const size_t start = index * kTilePositions;
  return tokens.subspan(start, std::min<size_t>(static_cast<size_t>(max_cached) - start, kTilePositions));
}

}  // namespace

// A block to copy the first tokens of, held; with what was known of it under its lock.
struct KvCache::Source {
  KvBlock* block = nullptr;
  int tokens = 0;
  int draft_tokens = 0;
};

KvPrefix::~KvPrefix() {
  if (cache_ == nullptr) return;
  KvShard& shard = *cache_->shards_[shard_];
  const auto held = shard.lock();
  shard.retract(digests_);
}

void KvPrefix::swap(KvPrefix& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(root_, other.root_);
  tokens_.swap(other.tokens_);
  digests_.swap(other.digests_);
  std::swap(shard_, other.shard_);
}

Result<std::unique_ptr<KvCache>> KvCache::create(KvCacheOptions options) {
  if (options.shards < 1 || options.shards > kMaxKvShards) {
    return make_error(ErrorCode::kInvalidArgument, "{} KV cache shards; give 1 to {}", options.shards, kMaxKvShards);
  }
  if (!(options.prealloc_ratio >= 0.0 && options.prealloc_ratio <= 1.0)) {
    return make_error(ErrorCode::kInvalidArgument, "a KV preallocation ratio of {}; give 0 to 1",
                      options.prealloc_ratio);
  }
  const KvBlockLayout layout(options.layers, options.draft_layers);
  DSPARK_CHECK(layout.bytes() > 0, "KV blocks without layers");
  if (options.memory_bytes < layout.bytes()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} bytes of KV memory, but a block of {} positions takes {}; give more", options.memory_bytes,
                      kTilePositions, layout.bytes());
  }
  const double at_once = options.prealloc_ratio * static_cast<double>(options.memory_bytes);
  if (at_once > static_cast<double>(machine_memory_bytes())) {
    return make_error(ErrorCode::kExhausted,
                      "{:.0f} bytes of KV memory are to be taken at once, the machine has {}; give less of it", at_once,
                      machine_memory_bytes());
  }
  return std::unique_ptr<KvCache>(new KvCache(std::move(options)));
}

KvCache::KvCache(KvCacheOptions options)
    : options_(std::move(options)),
      shared_(new KvShared{.layout = {options_.layers, options_.draft_layers}, .drafter = options_.drafter}) {
  const int64_t capacity = options_.memory_bytes / block_bytes();
  const auto preallocated = static_cast<int64_t>(std::ceil(options_.prealloc_ratio * static_cast<double>(capacity)));
  memory_ = std::make_unique<KvMemory>(block_bytes(), capacity, preallocated);
  for (int i = 0; i < options_.shards; ++i) shards_.push_back(std::make_unique<KvShard>(i, *shared_));
}

KvCache::~KvCache() { DSPARK_CHECK(sequences_ == 0, "{} sequences outlive their KV cache", sequences_.load()); }

int64_t KvCache::block_bytes() const { return shared_->layout.bytes(); }
int64_t KvCache::draft_offset() const { return shared_->layout.draft_offset(); }
int64_t KvCache::capacity_blocks() const { return memory_->capacity(); }

int64_t KvCache::available_blocks() const {
  int64_t blocks = memory_->capacity() - memory_->grown();
  for (const auto& shard : shards_) blocks += shard->free_estimate() + shard->cached_estimate();
  return blocks;
}

int KvCache::shard_number(const Sha256Digest& digest) const {
  uint64_t word;
  std::memcpy(&word, digest.data(), sizeof word);
  return static_cast<int>(word % shards_.size());
}

std::vector<std::unique_lock<std::mutex>> KvCache::lock_all() const {
  std::vector<std::unique_lock<std::mutex>> held;
  held.reserve(shards_.size() + 1);
  for (const auto& shard : shards_) held.push_back(shard->lock());
  held.push_back(memory_->lock());
  return held;
}

KvPrefix KvCache::announce(std::string_view tenant, std::string_view salt, std::vector<int32_t> tokens) {
  KvPrefix prefix;
  prefix.root_ = kv_root(options_.root, tenant, salt);
  prefix.tokens_ = std::move(tokens);
  const Sha256Digest* parent = &prefix.root_;
  prefix.digests_.reserve(prefix.tokens_.size() / kTilePositions);
  for (size_t i = 0; i < prefix.tokens_.size() / kTilePositions; ++i) {
    prefix.digests_.push_back(options_.block_digest(*parent, block_tokens(prefix.tokens_, i)));
    parent = &prefix.digests_.back();
  }
  prefix.shard_ = shard_number(prefix.digests_.empty() ? options_.block_digest(prefix.root_, prefix.tokens_)
                                                       : prefix.digests_.front());
  KvShard& shard = *shards_[prefix.shard_];
  const auto held = shard.lock();
  shard.announce(prefix.digests_);
  prefix.cache_ = this;
  return prefix;
}

// The cached whole blocks of the prefix, as far as the options allow.
std::vector<KvBlock*> KvCache::match(const KvShard& shard, const KvPrefix& prefix, const KvOpenOptions& options,
                                     int64_t* collisions) const {
  std::vector<KvBlock*> found;
  const size_t whole = static_cast<size_t>(options.max_cached) / kTilePositions;
  while (found.size() < whole) {
    const size_t i = found.size();
    bool collision = false;
    KvBlock* block = shard.find({prefix.root_, found.empty() ? nullptr : found.back()}, prefix.digests_[i],
                                block_tokens(prefix.tokens_, i), &collision);
    *collisions += collision;
    if (block == nullptr) break;
    if (options.drafts && block->draft_positions(shared_->drafter) < kTilePositions) break;
    found.push_back(block);
  }
  return found;
}

int KvCache::cached(const KvPrefix& prefix, const KvOpenOptions& options) const {
  int64_t collisions = 0;
  KvPlace place{prefix.root_};
  size_t whole = 0;
  int run = 0;
  {
    KvShard& shard = *shards_[prefix.shard_];
    const auto held = shard.lock();
    const std::vector<KvBlock*> found = match(shard, prefix, options, &collisions);
    whole = found.size();
    if (whole > 0) place.parent = found.back();
    run = shard.longest_run(place, run_tokens(prefix.tokens_, options.max_cached, whole), options.drafts).tokens;
  }
  for (size_t i = 0; whole == 0 && i < shards_.size(); ++i) {
    const auto held = shards_[i]->lock();
    const auto tokens = run_tokens(prefix.tokens_, options.max_cached, 0);
    run = std::max(run, shards_[i]->longest_run(place, tokens, options.drafts).tokens);
  }
  return static_cast<int>(whole) * kTilePositions + run;
}

SequenceKv KvCache::open(const KvPrefix& prefix, const KvOpenOptions& options) {
  DSPARK_CHECK(prefix.cache_ == this, "the prefix was announced to another KV cache");
  DSPARK_CHECK(options.max_cached >= 0 && static_cast<size_t>(options.max_cached) <= prefix.tokens_.size(),
               "{} positions from the cache for a prompt of {}", options.max_cached, prefix.tokens_.size());
  SequenceKv sequence;
  sequence.cache_ = this;
  sequence.root_ = prefix.root_;
  sequence.home_ = prefix.shard_;
  sequences_.fetch_add(1);
  Source source = hold_match(prefix, options, sequence);
  if (sequence.blocks_.empty()) look_in_other_shards(prefix, options, source);
  if (source.block != nullptr) copy_source(source, !options.resumed, sequence);
  return sequence;
}

KvCache::Source KvCache::hold_match(const KvPrefix& prefix, const KvOpenOptions& options, SequenceKv& sequence) {
  KvShard& shard = *shards_[prefix.shard_];
  const auto held = shard.lock();
  KvCounters& counters = shard.counters;
  const std::vector<KvBlock*> found = match(shard, prefix, options, &counters.hash_collisions);
  for (KvBlock* block : found) {
    shard.hold(block);
    sequence.add_run(block, kTilePositions, block->draft_positions(shared_->drafter));
  }
  sequence.indexed_ = static_cast<int>(found.size());

  const size_t whole = static_cast<size_t>(options.max_cached) / kTilePositions;
  counters.block_lookups += static_cast<int64_t>(whole);
  counters.block_hits += static_cast<int64_t>(found.size());
  for (size_t i = found.size(); i < whole; ++i) counters.conflicts += shard.was_evicted(prefix.digests_[i]);
  if (!options.resumed) {
    counters.prompt_tokens += static_cast<int64_t>(prefix.tokens_.size());
    counters.hit_tokens += sequence.length_;
  }

  const auto run = shard.longest_run({prefix.root_, found.empty() ? nullptr : found.back()},
                                     run_tokens(prefix.tokens_, options.max_cached, found.size()), options.drafts);
  if (run.block == nullptr) return {};
  const int drafted = std::min(run.tokens, run.block->draft_positions(shared_->drafter));
  // A first block may belong to another shard when it is whole.
  const bool stays_here = shards_.size() == 1 || !found.empty();
  if (stays_here && run.tokens == run.block->size() && shard.grow(run.block)) {
    sequence.grows_ = true;
    sequence.add_run(run.block, run.tokens, drafted);
    if (!options.resumed) counters.hit_tokens += run.tokens;
    return {};
  }
  shard.hold(run.block);
  return {run.block, run.tokens, drafted};
}

// First blocks that begin alike are spread over the shards by what follows.
void KvCache::look_in_other_shards(const KvPrefix& prefix, const KvOpenOptions& options, Source& best) {
  const auto tokens = run_tokens(prefix.tokens_, options.max_cached, 0);
  for (int i = 0; i < options_.shards; ++i) {
    if (i == prefix.shard_) continue;
    if (best.tokens == static_cast<int>(tokens.size())) return;
    KvBlock* given_up = nullptr;
    {
      const auto held = shards_[i]->lock();
      const auto run = shards_[i]->longest_run({prefix.root_}, tokens, options.drafts);
      if (run.tokens <= best.tokens) continue;
      shards_[i]->hold(run.block);
      given_up = std::exchange(best.block, run.block);
      best.tokens = run.tokens;
      best.draft_tokens = std::min(run.tokens, run.block->draft_positions(shared_->drafter));
    }
    if (given_up != nullptr) {
      KvShard& shard = *shards_[given_up->shard];
      const auto held = shard.lock();
      shard.release(given_up);
    }
  }
}

void KvCache::copy_source(const Source& source, bool counts, SequenceKv& sequence) {
  KvBlock* copy = acquire(sequence.home_);
  if (copy != nullptr) {
    copy_positions(*source.block, *copy, source.tokens, source.draft_tokens);
    sequence.add_run(copy, source.tokens, source.draft_tokens);
  }
  KvShard& shard = *shards_[source.block->shard];
  const auto held = shard.lock();
  shard.release(source.block);
  if (copy != nullptr && counts) {
    shard.counters.hit_tokens += source.tokens;
    shard.counters.copied_tokens += source.tokens;
  }
}

void KvCache::copy_positions(const KvBlock& from, KvBlock& to, int count, int draft_count) const {
  shared_->layout.copy_target(from.data, to.data, 0, count);
  std::copy_n(from.tokens.begin(), count, to.tokens.begin());
  to.resize(count);
  shared_->layout.copy_draft(from.data, to.data, 0, draft_count);
  to.draft_count = draft_count;
  to.drafter = shared_->drafter;
}

KvBlock* KvCache::acquire(int home) {
  {
    const auto held = shards_[home]->lock();
    if (KvBlock* block = shards_[home]->take_free(); block != nullptr) return block;
  }
  for (const auto& shard : shards_) {
    if (shard->free_estimate() == 0) continue;
    const auto held = shard->lock();
    if (KvBlock* block = shard->take_free(); block != nullptr) return block;
  }
  if (KvBlock* block = memory_->grow(); block != nullptr) return block;

  const auto oldest = std::ranges::min_element(
      shards_, {}, [](const std::unique_ptr<KvShard>& shard) { return shard->oldest_estimate(); });
  {
    const auto held = (*oldest)->lock();
    if (KvBlock* block = (*oldest)->evict(); block != nullptr) return block;
  }
  // Others were faster, or there is nothing: only all locks together tell.
  const auto held = lock_all();
  for (const auto& shard : shards_) {
    if (KvBlock* block = shard->take_free(); block != nullptr) return block;
  }
  for (const auto& shard : shards_) {
    if (KvBlock* block = shard->evict(); block != nullptr) return block;
  }
  return memory_->grow_locked();
}

Result<KvBlock*> KvCache::copy_of(const KvBlock& from, int count, int home) {
  KvBlock* copy = acquire(home);
  if (copy == nullptr) {
    return make_error(ErrorCode::kExhausted,
                      "a copy needs one more KV block of {} bytes, and all {} are in use or pinned; raise --kv-memory "
                      "or run fewer requests at once",
                      block_bytes(), capacity_blocks());
  }
  copy_positions(from, *copy, count, std::min(count, from.written_draft_positions(shared_->drafter)));
  return copy;
}

void KvCache::set_drafter(const Sha256Digest& digest, std::span<SequenceKv* const> open) {
  const auto held = lock_all();
  shared_->drafter = digest;
  for (SequenceKv* sequence : open) sequence->draft_length_ = 0;
}

int64_t KvCache::drop_cached() {
  int64_t dropped = 0;
  for (const auto& shard : shards_) {
    const auto held = shard->lock();
    while (KvBlock* block = shard->evict()) {
      shard->give_free(block);
      ++dropped;
    }
  }
  return dropped;
}

KvStats KvCache::stats() const {
  const auto held = lock_all();
  KvStats out;
  out.block_bytes = block_bytes();
  out.memory_bytes = memory_->bytes_taken();
  out.capacity_blocks = memory_->capacity();
  out.sequences = sequences_.load();
  int64_t occupied_span = 0;
  int64_t contents = 0;
  for (int64_t id = 0; id < memory_->grown(); ++id) {
    const KvBlock& block = memory_->block(id);
    if (block.state == KvBlockState::kFree) continue;
    ++(block.refs > 0 ? out.used_blocks : block.pinned ? out.pinned_blocks : out.cached_blocks);
    occupied_span = id + 1;
    contents += block.written();
  }
  const int64_t occupied = out.used_blocks + out.cached_blocks + out.pinned_blocks;
  out.free_blocks = out.capacity_blocks - occupied;
  out.allocated_positions = occupied_span * kTilePositions;
  out.slack_positions = occupied * kTilePositions - contents;
  out.scatter_positions = (occupied_span - occupied) * kTilePositions;
  for (const auto& shard : shards_) {
    out.shards.push_back(shard->stats());
    out.counters += out.shards.back().counters;
  }
  return out;
}

}  // namespace dspark
