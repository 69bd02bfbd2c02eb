// What the filters keep against sorting everything, for flat, peaked and tied logits, on each instruction set.
#include "engine/token_filter.h"

#include <gtest/gtest.h>

#include <random>

#include "engine/sampling_reference.h"

namespace dspark {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class Filter : public ::testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_supported(GetParam())) GTEST_SKIP() << isa_name(GetParam()) << " is not supported by this CPU";
  }

  Survey survey(const std::vector<float>& logits) {
    const int64_t vocab = static_cast<int64_t>(logits.size());
    maxima_.resize(static_cast<size_t>(survey_size(vocab)));
    EXPECT_TRUE(ops_.survey(logits.data(), vocab, maxima_.data()));
    return {logits.data(), maxima_.data(), vocab, *std::max_element(logits.begin(), logits.end())};
  }
  Cut cut(const SamplingParams& params, const std::vector<float>& logits) {
    return filter_.cut(params, survey(logits));
  }
  // False where rounding decides what is kept.
  bool check(const SamplingParams& params, const std::vector<float>& logits) {
    const ReferenceKept expected = reference_keep(params, {logits.begin(), logits.end()});
    const Cut found = cut(params, logits);
    if (expected.near_edge) return false;
    std::vector<bool> wanted(logits.size());
    for (const int32_t token : expected.order) wanted[static_cast<size_t>(token)] = true;
    for (size_t v = 0; v < logits.size(); ++v) {
      const bool kept = logits[v] > -kInfinity && found.keeps(logits[v], static_cast<int32_t>(v));
      if (kept == wanted[v]) continue;
      ADD_FAILURE() << "token " << v << " of " << logits.size() << " kept: " << kept << "; T " << params.temperature
                    << " top_k " << params.top_k << " top_p " << params.top_p << " min_p " << params.min_p;
      return true;
    }
    return true;
  }

  const Ops& ops_ = ops(GetParam());
  TokenFilter filter_{ops_};
  std::vector<float> maxima_;
};
INSTANTIATE_TEST_SUITE_P(Isa, Filter, ::testing::Values(Isa::kPortable, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& param_info) { return std::string(isa_name(param_info.param)); });

std::vector<float> normal_logits(size_t vocab, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(-2.0f, spread);
  std::vector<float> out(vocab);
  for (float& x : out) x = normal(random);
  return out;
}

TEST_P(Filter, AsSortingEverythingDoes) {
  std::mt19937 random(3);
  int checked = 0, edges = 0;
  for (const size_t vocab : {1u, 2u, 9u, 300u, 3000u, 20'000u}) {
    for (const float spread : {0.05f, 1.0f, 3.0f, 10.0f}) {
      for (int round = 0; round < (vocab > 1000 ? 10 : 60); ++round) {
        std::vector<float> logits = normal_logits(vocab, spread, random());
        if (round % 5 == 1) {
          for (float& x : logits) x = std::round(x);  // ties
        }
        if (round % 5 == 2) logits[random() % vocab] = -kInfinity;
        if (std::isinf(*std::max_element(logits.begin(), logits.end()))) continue;
        const auto pick = [&](std::initializer_list<double> values) {
          return values.begin()[random() % values.size()];
        };
        SamplingParams params;
        params.temperature = pick({0.01, 0.5, 1.0, 1.7, 20.0});
        params.top_k = static_cast<int64_t>(pick({0, 0, 1, 2, 7, 40, 200, 5000}));
        params.top_p = pick({1, 1, 0, 0.1, 0.5, 0.9, 0.95, 0.999});
        params.min_p = pick({0, 0, 0.001, 0.05, 0.5, 1});
        (check(params, logits) ? checked : edges) += 1;
      }
    }
  }
  EXPECT_GT(checked, 500);
  EXPECT_LT(edges, checked);
}

TEST_P(Filter, NothingAskedKeepsAll) {
  const Cut found = cut(SamplingParams{}, normal_logits(1000, 3.0f, 1));
  EXPECT_EQ(found.logit, -kInfinity);
}

TEST_P(Filter, TiesGoToTheLowestIds) {
  const std::vector<float> logits(5000, 1.25f);
  SamplingParams params;
  params.top_k = 17;
  EXPECT_EQ(cut(params, logits).token, 16);
  params.top_k = 0;
  params.top_p = 0.5;
  EXPECT_EQ(cut(params, logits).token, 2499);
  params.top_p = 0.0;
  EXPECT_EQ(cut(params, logits).token, 0);
  params.top_p = 1.0;
  params.min_p = 1.0;
  const Cut all = cut(params, logits);
  EXPECT_TRUE(all.keeps(1.25f, 4999));
  EXPECT_FALSE(all.keeps(1.2499f, 0));
}

// -0 and 0 are one logit.
TEST_P(Filter, ZerosOfBothSignsTie) {
  const std::vector<float> logits = {-0.0f, 0.0f, -0.0f, 0.0f, -1.0f};
  SamplingParams params;
  params.top_k = 3;
  const Cut found = cut(params, logits);
  EXPECT_TRUE(found.keeps(-0.0f, 2));
  EXPECT_FALSE(found.keeps(0.0f, 3));
}

// Probabilities that a double holds exactly: 8, 4, 2, 1, 1 of 16. A sum that reaches p ends the set.
TEST_P(Filter, TopPAtExactSums) {
  std::vector<float> logits;
  for (const double weight : {1.0, 8.0, 2.0, 1.0, 4.0}) logits.push_back(static_cast<float>(std::log(weight)));
  SamplingParams params;
  const auto last = [&](double p) {
    params.top_p = p;
    return cut(params, logits).token;
  };
  EXPECT_EQ(last(0.49), 1);
  EXPECT_EQ(last(0.51), 4);
  EXPECT_EQ(last(0.74), 4);
  EXPECT_EQ(last(0.76), 2);
  EXPECT_EQ(last(0.89), 0);
  EXPECT_EQ(last(0.95), 3);
  params.top_k = 2;  // 8, 4: two thirds
  EXPECT_EQ(last(0.66), 1);
  EXPECT_EQ(last(0.67), 4);
}

TEST_P(Filter, Top) {
  std::vector<float> logits = normal_logits(2000, 3.0f, 4);
  logits[77] = logits[1234] = 50.0f;
  logits[5] = -kInfinity;
  std::vector<int32_t> expected(2000);
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  for (const int64_t count : {0, 1, 2, 20, 500, 2000}) {
    const auto top = filter_.top(survey(logits), count);
    ASSERT_EQ(static_cast<int64_t>(top.size()), std::min<int64_t>(count, 1999));
    for (size_t i = 0; i < top.size(); ++i) {
      ASSERT_EQ(key_token(top[i]), expected[i]);
      ASSERT_EQ(key_logit(top[i]), logits[static_cast<size_t>(expected[i])]);
    }
  }
}

}  // namespace
}  // namespace dspark
