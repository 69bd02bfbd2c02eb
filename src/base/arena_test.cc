// Tests of arena.h.
#include "base/arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace dspark {
namespace {

TEST(Arena, PiecesAreAlignedAndDoNotOverlap) {
  Arena arena;
  std::vector<std::pair<uint8_t*, size_t>> pieces;
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{30} << 20, size_t{3} << 20, size_t{40} << 20, size_t{64}}) {
    uint8_t* piece = arena.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(piece) % 64, 0u);
    std::memset(piece, static_cast<int>(pieces.size() + 1), bytes);
    pieces.push_back({piece, bytes});
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(pieces[i].first[0], i + 1);
    EXPECT_EQ(pieces[i].first[pieces[i].second - 1], i + 1);
  }
}

}  // namespace
}  // namespace dspark
