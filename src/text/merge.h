// merge_symbols: byte pair encoding's loop, for any source of merge ranks. One thread per Scratch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "text/piece_model.h"

namespace dspark {

namespace merge_internal {

// Up to this many symbols a scan for the best pair is faster than a heap.
inline constexpr size_t kMaxScannedSymbols = 40;

template <class Lookup>
void merge_by_scan(PieceModel::Scratch& scratch, const Lookup& lookup) {
  auto& symbols = scratch.symbols;
  auto& merges = scratch.merges;  // merges[i]: of symbols i and i + 1
  merges.clear();
  for (size_t i = 0; i + 1 < symbols.size(); ++i) merges.push_back(lookup(symbols[i], symbols[i + 1]));
  while (!merges.empty()) {
    const auto best =
        std::min_element(merges.begin(), merges.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    if (best->rank == PairMerge::kNever) break;
    const auto at = static_cast<size_t>(best - merges.begin());
    symbols[at].end = symbols[at + 1].end;
    symbols[at].id = best->id;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(at) + 1);
    merges.erase(best);
    if (at > 0) merges[at - 1] = lookup(symbols[at - 1], symbols[at]);
    if (at < merges.size()) merges[at] = lookup(symbols[at], symbols[at + 1]);
  }
}

// O(n log n): symbols in a linked list, pairs in a heap of (rank, position); an entry that does not carry its pair's
// present rank is out of date.
template <class Lookup>
void merge_by_heap(PieceModel::Scratch& scratch, const Lookup& lookup) {
  auto& symbols = scratch.symbols;
  auto& merges = scratch.merges;  // merges[i]: of symbol i and the one behind it
  auto& heap = scratch.heap;
  auto& next = scratch.next;
  auto& previous = scratch.previous;
  constexpr uint32_t kNone = 0xFFFFFFFF;
  const auto count = static_cast<uint32_t>(symbols.size());
  merges.assign(count, PairMerge{});
  next.resize(count);
  previous.resize(count);
  heap.clear();
  const auto entry = [&](uint32_t at) { return uint64_t{merges[at].rank} << 32 | at; };
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kNone;
    previous[i] = i > 0 ? i - 1 : kNone;
    if (i + 1 < count) merges[i] = lookup(symbols[i], symbols[i + 1]);
    if (merges[i].rank != PairMerge::kNever) heap.push_back(entry(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto renew = [&](uint32_t at) {
    merges[at] = next[at] == kNone ? PairMerge{} : lookup(symbols[at], symbols[next[at]]);
    if (merges[at].rank == PairMerge::kNever) return;
    heap.push_back(entry(at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (merges[at].rank != top >> 32) continue;
    const uint32_t gone = next[at];
    symbols[at].end = symbols[gone].end;
    symbols[at].id = merges[at].id;
    merges[gone] = {};
    next[at] = next[gone];
    if (next[at] != kNone) previous[next[at]] = at;
    renew(at);
    if (previous[at] != kNone) renew(previous[at]);
  }
  size_t kept = 0;
  for (uint32_t at = 0; at != kNone; at = next[at]) symbols[kept++] = symbols[at];
  symbols.resize(kept);
}

}  // namespace merge_internal

// Merges neighbours in scratch.symbols until no pair can: always the pair of the lowest rank, the leftmost of equals.
// `lookup(left, right)` returns their PairMerge. O(n log n) for long pieces.
template <class Lookup>
void merge_symbols(PieceModel::Scratch& scratch, const Lookup& lookup) {
  if (scratch.symbols.size() <= merge_internal::kMaxScannedSymbols) {
    merge_internal::merge_by_scan(scratch, lookup);
  } else {
    merge_internal::merge_by_heap(scratch, lookup);
  }
}

}  // namespace dspark
