// Tests of random_blocks.h, through the formats' own dequantisation.
#include "model/random_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/formats/format.h"

namespace dspark {
namespace {

TEST(RandomBlocks, HaveTheDeviationAskedFor) {
  constexpr int64_t kElements = 1 << 16;
  constexpr double kDeviation = 0.02;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    SCOPED_TRACE(dtype_info(type).name);
    std::vector<uint8_t> blocks(static_cast<size_t>(dtype_bytes(type, kElements)));
    RandomWords random(5);
    fill_random_weights(type, kDeviation, random, blocks);
    std::vector<float> values(kElements);
    format_of(type).dequantise(blocks.data(), kElements, values.data());
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      ASSERT_TRUE(std::isfinite(value));
      ASSERT_LT(std::fabs(value), 0.25f);
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    EXPECT_LT(std::fabs(sum / kElements), 0.2 * kDeviation);
    EXPECT_NEAR(std::sqrt(squares / kElements), kDeviation, 0.1 * kDeviation);
  }
}

TEST(RandomBlocks, DependOnTheSeedAlone) {
  const auto fill = [](uint64_t seed) {
    std::vector<uint8_t> blocks(144 * 7);
    RandomWords random(seed);
    fill_random_weights(DType::kQ4_K, 0.02f, random, blocks);
    return blocks;
  };
  EXPECT_EQ(fill(1), fill(1));
  EXPECT_NE(fill(1), fill(2));
}

}  // namespace
}  // namespace dspark
