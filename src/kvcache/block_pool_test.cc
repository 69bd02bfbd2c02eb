// Tests of block_pool.h.
#include "kvcache/block_pool.h"

#include <gtest/gtest.h>

#include <cstring>

namespace dspark {
namespace {

TEST(BlockPool, ReusesReleasedBlocksAndStopsAtItsLimit) {
  BlockPool pool(4096, 2);
  uint8_t* a = *pool.acquire();
  uint8_t* b = *pool.acquire();
  EXPECT_NE(a, b);
  std::memset(a, 1, 4096);
  std::memset(b, 2, 4096);
  EXPECT_EQ(a[4095], 1);
  const auto full = pool.acquire();
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().code, ErrorCode::kExhausted);
  EXPECT_NE(full.error().message.find("all 2 KV blocks of 4096 bytes"), std::string::npos);
  pool.release(a);
  EXPECT_EQ(pool.used(), 1);
  EXPECT_EQ(*pool.acquire(), a);
}

}  // namespace
}  // namespace dspark
