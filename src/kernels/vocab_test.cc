// The vocabulary reductions of each instruction set against loops that say the same in one line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/ops.h"

namespace dspark {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kSizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000, 1024, 1025, 5000};

class Vocab : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << isa_name(GetParam()) << " is not supported by this CPU";
  }
  const Ops& ops_ = ops(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Isa, Vocab, ::testing::Values(Isa::kPortable, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& param_info) { return std::string(isa_name(param_info.param)); });

std::vector<float> random_logits(int64_t n, uint32_t seed, float spread = 4.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(1.0f, spread);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = normal(random);
  return out;
}

std::vector<float> survey_of(const Ops& ops, const std::vector<float>& x) {
  std::vector<float> maxima(static_cast<size_t>(survey_size(static_cast<int64_t>(x.size()))), -7.0f);
  EXPECT_TRUE(ops.survey(x.data(), static_cast<int64_t>(x.size()), maxima.data()));
  return maxima;
}

TEST_P(Vocab, Argmax) {
  for (const int64_t n : kSizes) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
      std::vector<float> x = random_logits(n, seed);
      // Few values: many ties.
      if (seed % 2 == 1) {
        for (float& value : x) value = std::round(value / 4.0f);
      }
      EXPECT_EQ(ops_.argmax(x.data(), n), std::max_element(x.begin(), x.end()) - x.begin()) << n;
      x[seed * 37 % x.size()] = std::nanf("");
      EXPECT_EQ(ops_.argmax(x.data(), n), -1) << n;
    }
    std::vector<float> x(static_cast<size_t>(n), -kInfinity);
    EXPECT_EQ(ops_.argmax(x.data(), n), 0);
    x.back() = -3e38f;
    EXPECT_EQ(ops_.argmax(x.data(), n), n - 1);
    x.front() = kInfinity;
    EXPECT_EQ(ops_.argmax(x.data(), n), 0);
  }
  const float zeros[] = {-1.0f, -0.0f, 0.0f};
  EXPECT_EQ(ops_.argmax(zeros, 3), 1);
}

TEST_P(Vocab, Survey) {
  for (const int64_t n : kSizes) {
    std::vector<float> x = random_logits(n, 5);
    std::vector<float> expected(static_cast<size_t>(survey_size(n)), -kInfinity);
    for (size_t i = 0; i < x.size(); ++i) {
      float& group = expected[i / 256 * 16 + i % 16];
      group = std::max(group, x[i]);
    }
    EXPECT_THAT(survey_of(ops_, x), ElementsAreArray(expected)) << n;
    for (const int64_t at : {int64_t{0}, n / 2, n - 1}) {
      std::vector<float> broken = x;
      broken[static_cast<size_t>(at)] = std::nanf("");
      EXPECT_FALSE(ops_.survey(broken.data(), n, expected.data())) << n << " " << at;
    }
  }
}

TEST_P(Vocab, Collect) {
  for (const int64_t n : kSizes) {
    std::vector<float> x = random_logits(n, 6);
    if (n > 3) x[2] = -kInfinity;
    const std::vector<float> maxima = survey_of(ops_, x);
    const float middle = x[static_cast<size_t>(n / 2)];
    for (const auto& [floor, ceiling] : std::vector<std::pair<float, float>>{{-kInfinity, kInfinity},
                                                                             {middle, kInfinity},
                                                                             {-kInfinity, middle},
                                                                             {middle, middle + 2.0f},
                                                                             {1e9f, 2e9f}}) {
      std::vector<int32_t> expected, ids(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] > -kInfinity && x[i] >= floor && x[i] < ceiling) expected.push_back(static_cast<int32_t>(i));
      }
      const int64_t count = ops_.collect(x.data(), maxima.data(), n, floor, ceiling, ids.data());
      ids.resize(static_cast<size_t>(count));
      EXPECT_THAT(ids, ElementsAreArray(expected)) << n << " " << floor << " " << ceiling;
    }
  }
}

TEST_P(Vocab, ExpSumIsTheSumOfItsTerms) {
  for (const int64_t n : kSizes) {
    for (const float inverse_t : {1.0f, 0.01f, 1000.0f, 1e30f}) {
      std::vector<float> x = random_logits(n, 7);
      if (n > 3) x[2] = -kInfinity;
      const std::vector<float> maxima = survey_of(ops_, x);
      const float max = *std::max_element(x.begin(), x.end());
      std::vector<int64_t> terms(x.size());
      ops_.exp_weights(x.data(), n, max, inverse_t, terms.data());
      for (const float floor : {-kInfinity, 1.0f, max}) {
        int64_t expected = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          if (x[i] < floor) continue;
          expected += terms[i];
          const double exact = std::exp((static_cast<double>(x[i]) - max) * inverse_t) * 0x1p42;
          EXPECT_NEAR(static_cast<double>(terms[i]), exact, 1.0 + 1e-5 * exact);
        }
        EXPECT_EQ(ops_.exp_sum(x.data(), maxima.data(), n, max, inverse_t, floor), expected) << n << " " << floor;
      }
      EXPECT_EQ(ops_.exp_sum(x.data(), maxima.data(), n, max, inverse_t, max) % (int64_t{1} << kWeightBits), 0);
    }
  }
}

// Equal logits are the worst case of the 32-bit lanes in between.
TEST_P(Vocab, ExpSumOfALargeFlatVocabulary) {
  const std::vector<float> x(300'001, 2.5f);
  const std::vector<float> maxima = survey_of(ops_, x);
  const int64_t n = static_cast<int64_t>(x.size());
  EXPECT_EQ(ops_.exp_sum(x.data(), maxima.data(), n, 2.5f, 1.0f, -kInfinity), n << kWeightBits);
  // e^-1 has a low part near the largest: 1024 * 0.3679 * 1024 = 385,749.7.
  int64_t term = 0;
  ops_.exp_weights(x.data(), 1, 3.5f, 1.0f, &term);
  EXPECT_EQ(ops_.exp_sum(x.data(), maxima.data(), n, 3.5f, 1.0f, -kInfinity), n * term);
}

// With one logit for all, those tokens pass whose upper half is small enough: the vectors' noise is the scalar one's.
TEST_P(Vocab, DrawScanGivesEveryTokenItsNoise) {
  for (const int64_t n : kSizes) {
    const std::vector<float> x(static_cast<size_t>(n), 2.0f);
    const std::vector<float> maxima = survey_of(ops_, x);
    for (const NoiseKey key : {NoiseKey{0x123456789abcdef0, 0x1fedcba98}, NoiseKey{0, 0}, NoiseKey{~0ull, ~0ull}}) {
      for (const uint32_t half : {0u, 1u, 100u, 0x7FFFu, 0x8000u, 0xFFFFu}) {
        const float just_below =
            std::nextafter(static_cast<float>(std::bit_cast<uint32_t>(static_cast<float>(half))) * kLogUnit, 0.0f);
        const DrawScan scan{key, x.data(), maxima.data(), 2.0f, 1.0f, -kInfinity, just_below};
        for (const int64_t begin : {int64_t{0}, int64_t{128}, int64_t{256}, int64_t{384}}) {
          if (begin >= n) continue;
          std::vector<int32_t> found(x.size()), expected;
          for (int32_t token = static_cast<int32_t>(begin); token < n; ++token) {
            if (noise_word(key, token) >> 16 < half) expected.push_back(token);
          }
          found.resize(static_cast<size_t>(ops_.draw_scan(scan, begin, n, found.data())));
          ASSERT_THAT(found, ElementsAreArray(expected)) << n << " from " << begin << " below " << half;
        }
      }
    }
  }
}

// No token that can reach the bound may be missed, and few others pass.
TEST_P(Vocab, DrawScanMissesNoWinner) {
  constexpr int64_t kCount = 5000;
  for (const float temperature : {0.01f, 0.3f, 1.0f, 10.0f}) {
    int64_t winners = 0, passed = 0;
    for (uint32_t seed = 0; seed < 40; ++seed) {
      const std::vector<float> x = random_logits(kCount, seed, 3.0f);
      const std::vector<float> maxima = survey_of(ops_, x);
      const float max = *std::max_element(x.begin(), x.end());
      const NoiseKey key{seed, 99};
      for (const double bound : {-3.0, 0.0, 2.0, 6.0}) {
        const float limit = static_cast<float>(143 * std::log(2.0) - bound) + 0x1p-10f;
        const DrawScan scan{key, x.data(), maxima.data(), max, 1.0f / temperature, -kInfinity, limit};
        std::vector<int32_t> found(x.size());
        const int64_t count = ops_.draw_scan(scan, 0, kCount, found.data());
        passed += count;
        auto next = found.begin();
        for (int32_t token = 0; token < kCount; ++token) {
          const bool passes = next != found.begin() + count && *next == token;
          if (passes) ++next;
          const double g = -std::log(-std::log1p(-(noise_word(key, token) + 0.5) * 0x1p-32));
          if ((x[static_cast<size_t>(token)] - max) / temperature + g < bound) continue;
          ++winners;
          ASSERT_TRUE(passes) << token << " bound " << bound;
        }
      }
    }
    EXPECT_GT(winners, 50);
    EXPECT_LT(passed, winners * 3 / 2);
  }
}

TEST_P(Vocab, DrawScanKeepsToItsFloor) {
  const std::vector<float> x = random_logits(3000, 11);
  const std::vector<float> maxima = survey_of(ops_, x);
  DrawScan scan{{1, 2}, x.data(), maxima.data(), 20.0f, 1.0f, 7.0f, kInfinity};
  std::vector<int32_t> expected, found(x.size());
  for (int32_t i = 0; i < 3000; ++i) {
    if (x[static_cast<size_t>(i)] >= 7.0f) expected.push_back(i);
  }
  found.resize(static_cast<size_t>(ops_.draw_scan(scan, 0, 3000, found.data())));
  EXPECT_THAT(found, ElementsAreArray(expected));
  scan.floor = 1e9f;
  EXPECT_EQ(ops_.draw_scan(scan, 0, 3000, found.data()), 0);
}

}  // namespace
}  // namespace dspark
