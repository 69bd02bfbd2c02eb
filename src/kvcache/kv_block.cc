// See kv_block.h.
#include "kvcache/kv_block.h"

#include <algorithm>

#include "base/check.h"

namespace dspark {

int common_run(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<int>(std::ranges::mismatch(a, b).in1 - a.begin());
}

std::vector<KvBlock*>::const_iterator KvSiblings::lower_bound(std::span<const int32_t> tokens) const {
  return std::ranges::lower_bound(
      blocks_, tokens,
      [](std::span<const int32_t> a, std::span<const int32_t> b) { return std::ranges::lexicographical_compare(a, b); },
      [](const KvBlock* block) { return block->text(); });
}

KvSiblings::Neighbours KvSiblings::neighbours(std::span<const int32_t> tokens) const {
  const auto next = lower_bound(tokens);
  Neighbours out;
  if (next != blocks_.begin()) {
    KvBlock* block = *std::prev(next);
    out.before = {block, common_run(block->text(), tokens)};
  }
  if (next != blocks_.end()) out.after = {*next, common_run((*next)->text(), tokens)};
  return out;
}

void KvSiblings::insert(KvBlock* block) { blocks_.insert(lower_bound(block->text()), block); }

void KvSiblings::erase(KvBlock* block) {
  const auto found = lower_bound(block->text());
  DSPARK_CHECK(found != blocks_.end() && *found == block, "block {} is not among its siblings", block->id);
  blocks_.erase(found);
}

void KvBlock::write(int slot, std::span<const int32_t> more, const Sha256Digest* with_drafter) {
  std::ranges::copy(more, tokens.begin() + slot);
  const int end = slot + static_cast<int>(more.size());
  (growing ? grown : count).store(end, std::memory_order_relaxed);
  if (with_drafter == nullptr || written_draft_positions(*with_drafter) < slot) return;
  (growing ? grown_drafter : drafter) = *with_drafter;
  (growing ? grown_draft_count : draft_count) = end;
}

void KvBlock::truncate(int slot) {
  (growing ? grown : count).store(slot, std::memory_order_relaxed);
  int32_t& drafted = growing ? grown_draft_count : draft_count;
  drafted = std::min(drafted, slot);
}

}  // namespace dspark
