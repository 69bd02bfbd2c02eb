// Tests of kv_copy.h: copies are compared with tiles into which the kernels stored the same positions.
#include "kvcache/kv_copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/ops.h"

namespace dspark {
namespace {

using Tile = std::vector<uint8_t>;

void store(const KvLayout& layout, uint8_t* tile, int slot, uint32_t seed) {
  std::mt19937 random(seed * 1000 + static_cast<uint32_t>(slot));
  std::normal_distribution<float> normal;
  std::vector<float> key(static_cast<size_t>(layout.head_dim));
  std::vector<float> value(static_cast<size_t>(layout.head_dim));
  for (int head = 0; head < layout.kv_heads; ++head) {
    for (float& x : key) x = normal(random);
    for (float& x : value) x = normal(random);
    ops(best_isa()).store_kv(layout, tile, head, slot, key.data(), value.data());
  }
}

Tile full_tile(const KvLayout& layout, uint32_t seed) {
  Tile tile(static_cast<size_t>(layout.tile_bytes()));
  for (int slot = 0; slot < kTilePositions; ++slot) store(layout, tile.data(), slot, seed);
  return tile;
}

class KvCopy : public testing::TestWithParam<DType> {};

TEST_P(KvCopy, TakesExactlyTheGivenPositions) {
  for (const int head_dim : {32, 96}) {
    const KvLayout layout{.type = GetParam(), .kv_heads = 3, .head_dim = head_dim};
    const Tile from = full_tile(layout, 1);
    for (const auto& [first, last] : std::vector<std::pair<int, int>>{
             {0, 0}, {0, 1}, {0, 15}, {0, 16}, {0, 17}, {0, 127}, {0, 128}, {5, 7}, {9, 40}, {16, 32}, {127, 128}}) {
      Tile to = full_tile(layout, 2);
      Tile expected = to;
      for (int slot = first; slot < last; ++slot) store(layout, expected.data(), slot, 1);
      copy_kv_positions(layout, from.data(), to.data(), first, last);
      EXPECT_EQ(to, expected) << "positions " << first << " to " << last << ", head_dim " << head_dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, KvCopy, testing::Values(DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0),
                         [](const auto& type) { return dtype_info(type.param).name; });

TEST(KvBlockLayout, CopiesEveryLayerOfTargetAndDrafterApart) {
  const KvLayout wide{.type = DType::kF16, .kv_heads = 2, .head_dim = 48};
  const KvLayout small{.type = DType::kQ8_0, .kv_heads = 1, .head_dim = 32};
  const KvBlockLayout block({wide, wide, small}, {small, wide});
  const auto fill = [&](uint32_t seed, uint32_t draft_seed, int first, int last, uint8_t* data) {
    uint8_t* tile = data;
    for (const auto& [layout, layer_seed] :
         {std::pair{wide, seed}, {wide, seed + 1}, {small, seed + 2}, {small, draft_seed}, {wide, draft_seed + 1}}) {
      for (int slot = first; slot < last; ++slot) store(layout, tile, slot, layer_seed);
      tile += layout.tile_bytes();
    }
  };
  ASSERT_EQ(block.draft_offset(), 2 * wide.tile_bytes() + small.tile_bytes());
  ASSERT_EQ(block.bytes(), 3 * wide.tile_bytes() + 2 * small.tile_bytes());
  Tile from(static_cast<size_t>(block.bytes()));
  Tile to(from.size());
  fill(10, 20, 0, kTilePositions, from.data());
  fill(30, 40, 0, kTilePositions, to.data());
  Tile expected = to;
  fill(10, 40, 0, 21, expected.data());
  block.copy_target(from.data(), to.data(), 0, 21);
  EXPECT_EQ(to, expected);
  fill(10, 20, 3, 9, expected.data());
  block.copy_draft(from.data(), to.data(), 3, 9);
  EXPECT_EQ(to, expected);
}

}  // namespace
}  // namespace dspark
