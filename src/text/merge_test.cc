// Tests of merge.h, against merging by the definition.
#include "text/merge.h"

#include <gtest/gtest.h>

#include <random>

namespace dspark {
namespace {

// Merges by the definition: again and again the leftmost pair of the lowest rank.
template <class Lookup>
std::vector<int32_t> merge_by_definition(std::vector<int32_t> ids, const Lookup& lookup) {
  while (true) {
    PairMerge best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const PairMerge merge = lookup(Symbol{0, 0, ids[i]}, Symbol{0, 0, ids[i + 1]});
      if (merge.rank < best.rank) {
        best = merge;
        at = i;
      }
    }
    if (best.rank == PairMerge::kNever) return ids;
    ids[at] = best.id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(Merge, ScanAndHeapDoWhatTheDefinitionSays) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    // Ids below `letters` are single symbols; each rule makes one new id, ranks may be equal.
    const int letters = 2 + static_cast<int>(random() % 3);
    std::vector<std::vector<PairMerge>> rules(40, std::vector<PairMerge>(40));
    for (int32_t id = letters; id < 40; ++id) {
      const size_t left = random() % static_cast<size_t>(id), right = random() % static_cast<size_t>(id);
      rules[left][right] = {static_cast<uint32_t>(round % 2 == 0 ? id : random() % 10), id};
    }
    const auto lookup = [&](const Symbol& left, const Symbol& right) { return rules[left.id][right.id]; };
    std::vector<int32_t> ids(1 + random() % 120);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<unsigned>(letters));
    const auto expected = merge_by_definition(ids, lookup);
    for (const bool heap : {false, true}) {
      PieceModel::Scratch scratch;
      for (uint32_t i = 0; i < ids.size(); ++i) scratch.symbols.push_back({i, i + 1, ids[i]});
      if (heap) {
        merge_internal::merge_by_heap(scratch, lookup);
      } else {
        merge_internal::merge_by_scan(scratch, lookup);
      }
      std::vector<int32_t> merged;
      uint32_t end = 0;
      for (const Symbol& symbol : scratch.symbols) {
        merged.push_back(symbol.id);
        EXPECT_EQ(symbol.begin, end);
        end = symbol.end;
      }
      EXPECT_EQ(end, ids.size());
      ASSERT_EQ(merged, expected) << (heap ? "heap" : "scan") << ", round " << round;
    }
  }
}

}  // namespace
}  // namespace dspark
