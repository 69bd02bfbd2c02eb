// See ngram_index.h.
#include "draft/ngram_index.h"

#include <algorithm>

namespace dspark {
namespace {

// Each order has hashes of its own, as they grow from the newest token back.
uint32_t extend_hash(uint32_t hash, int32_t token) {
  uint64_t mixed = (uint64_t{hash} << 32 | static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u;
  mixed ^= mixed >> 29;
  return static_cast<uint32_t>((mixed * 0xBF58476D1CE4E5B9u) >> 32);
}

}  // namespace

// How many tokens before `end` equal the newest ones.
int NgramIndex::common_suffix(int end, int most) const {
  const int32_t* newest = tokens_.data() + tokens_.size();
  const int32_t* earlier = tokens_.data() + end;
  const int limit = std::min(end, most);
  int length = 0;
  while (length < limit && earlier[-1 - length] == newest[-1 - length]) ++length;
  return length;
}

NgramIndex::Slot& NgramIndex::slot(uint32_t hash) {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].end != 0 && slots_[at].hash != hash) at = (at + 1) & mask;
  return slots_[at];
}

void NgramIndex::grow() {
  std::vector<Slot> old(std::max<size_t>(256, 2 * slots_.size()), Slot{0, 0});
  old.swap(slots_);
  for (const Slot& entry : old) {
    if (entry.end != 0) slot(entry.hash) = entry;
  }
}

void NgramIndex::append(int32_t token) {
  NgramMatch best;
  if (match_.length > 0 && tokens_[static_cast<size_t>(match_.next)] == token) {
    best = {std::min(match_.length + 1, kMaxLength), match_.next + 1};
  }
  tokens_.push_back(token);
  const int end = size();
  if (2 * (used_ + kMaxOrder) > slots_.size()) grow();
  int found = 0;  // the most recent place of the longest order that has one
  uint32_t hash = 1;
  for (int order = 1; order <= std::min(kMaxOrder, end); ++order) {
    hash = extend_hash(hash, tokens_[static_cast<size_t>(end - order)]);
    Slot& place = slot(hash);
    if (place.end == 0) {
      ++used_;
    } else {
      found = place.end;
    }
    place = {hash, end};
  }
  if (found > 0) {
    const int length = common_suffix(found, kMaxLength);
    if (length > 0 && length >= best.length) best = {length, found};
  }
  match_ = best;
}

void NgramIndex::catch_up(std::span<const int32_t> tokens) {
  if (tokens.size() < tokens_.size()) *this = NgramIndex();
  for (const int32_t token : tokens.subspan(tokens_.size())) append(token);
}

std::vector<int32_t> NgramIndex::continuation(int count) const {
  std::vector<int32_t> out;
  if (match_.length == 0) return out;
  for (int i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(match_.next + i);
    out.push_back(at < tokens_.size() ? tokens_[at] : out[at - tokens_.size()]);
  }
  return out;
}

const NgramIndex& NgramStore::of(uint64_t sequence, std::span<const int32_t> tokens) {
  NgramIndex& index = indices_[sequence];
  index.catch_up(tokens);
  return index;
}

}  // namespace dspark
