// Philox against its authors' known answers, the Gumbel value against 80-bit arithmetic, seeds.
#include "base/noise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace dspark {
namespace {

using ::testing::ElementsAre;

// kat_vectors of Random123.
TEST(Noise, PhiloxKnownAnswers) {
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// The documented place of a token: counter 16 (t / 128) + t % 16, slot t / 16 % 8.
TEST(Noise, WordOfAToken) {
  const NoiseKey key{0x299f31d0a4093822, 0x0370734413198a2e};
  const auto word = [&](uint32_t index, size_t place, int shift) {
    const auto at = [&](uint32_t part) {
      return philox4x32({index, part, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0})[place] >> shift & 0xFFFF;
    };
    return at(0) << 16 | at(1);
  };
  EXPECT_EQ(noise_word(key, 0), word(0, 0, 0));
  EXPECT_EQ(noise_word(key, 1), word(1, 0, 0));
  EXPECT_EQ(noise_word(key, 16), word(0, 1, 0));
  EXPECT_EQ(noise_word(key, 63), word(15, 3, 0));
  EXPECT_EQ(noise_word(key, 64), word(0, 0, 16));
  EXPECT_EQ(noise_word(key, 127), word(15, 3, 16));
  EXPECT_EQ(noise_word(key, 128), word(16, 0, 0));
  EXPECT_EQ(noise_word(key, 100'000), word(16 * 781, 2, 0));
}

TEST(Noise, WordsDifferByTokenPositionAndSeed) {
  std::set<uint32_t> words;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, ~uint64_t{0}}) {
    for (uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
      for (int32_t token = 0; token < 200; ++token) words.insert(noise_word({seed, position}, token));
    }
  }
  EXPECT_GE(words.size(), 4u * 3 * 200 - 2);  // 32-bit words may meet by chance
}

TEST(Noise, GumbelIsPreciseToTheEnds) {
  uint32_t word = 0;
  for (uint64_t i = 0; i <= 0xFFFFFFFF; i = i * 5 / 4 + 1) {
    for (const uint64_t w : {i, 0xFFFFFFFF - i}) {
      word = static_cast<uint32_t>(w);
      const long double u = (static_cast<long double>(word) + 0.5L) * 0x1p-32L;
      const long double exact = -std::log(-std::log1p(-u));
      EXPECT_NEAR(static_cast<double>(gumbel(word) - exact), 0.0, 1e-15 + 4e-16 * std::fabs(gumbel(word))) << word;
      EXPECT_GT(gumbel(word), kMinGumbel);
      EXPECT_LT(gumbel(word), kMaxGumbel);
    }
  }
  EXPECT_NEAR(gumbel(0), kMaxGumbel, 1e-4);
  EXPECT_NEAR(gumbel(0xFFFFFFFF), kMinGumbel, 1e-4);
}

// Mean: Euler's constant; variance: pi^2 / 6. 200,000 draws: standard errors 0.003 and about 0.009.
TEST(Noise, GumbelMoments) {
  double sum = 0, squares = 0;
  constexpr int kCount = 200'000;
  for (int i = 0; i < kCount; ++i) {
    const double g = gumbel(noise_word({42, static_cast<uint64_t>(i / 1000)}, i % 1000));
    sum += g;
    squares += g * g;
  }
  const double mean = sum / kCount;
  EXPECT_NEAR(mean, 0.57721566, 0.012);
  EXPECT_NEAR(squares / kCount - mean * mean, 1.64493407, 0.035);
}

TEST(Noise, ChoiceSeeds) {
  std::set<uint64_t> seeds;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    EXPECT_EQ(choice_seed(seed, 0), seed);
    for (uint64_t i = 0; i < 100; ++i) seeds.insert(choice_seed(seed, i));
    for (uint64_t i = 1; i < 100; ++i) EXPECT_LT(choice_seed(seed, i), uint64_t{1} << 53);
  }
  EXPECT_EQ(seeds.size(), 300u);
  const auto words = philox4x32({3, 0, 0x696f6863, 0x20206563}, {7, 0});
  EXPECT_EQ(choice_seed(7, 3), (uint64_t{words[1]} << 32 | words[0]) >> 11);
}

TEST(Noise, RandomSeedsDiffer) {
  std::set<uint64_t> seeds;
  for (int i = 0; i < 100; ++i) {
    seeds.insert(random_seed());
    EXPECT_LT(*seeds.rbegin(), uint64_t{1} << 53);
  }
  EXPECT_EQ(seeds.size(), 100u);
}

}  // namespace
}  // namespace dspark
