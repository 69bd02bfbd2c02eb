// Drafted tokens are drawn as the target's. Test thread.
#include "engine/draft_sampler.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace dspark {
namespace {

constexpr int kVocab = 300;

std::vector<float> random_logits(uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  std::vector<float> out(kVocab);
  for (float& logit : out) logit = normal(random);
  return out;
}

TEST(DraftSampler, AgreesWithTheTargetWhereTheLogitsDo) {
  const Ops& kernels = ops(best_isa());
  SamplingParams params;
  params.temperature = 0.9;
  params.top_p = 0.9;
  params.repetition_penalty = 1.3;
  params.frequency_penalty = 0.5;
  params.seed = 77;
  const Sampler sampler = Sampler::create(kernels, params, kVocab, {}).value();
  TokenHistory target(params, std::vector<int32_t>{1, 2, 3});
  TokenHistory history = target;
  RequestDraftSampler drafts(kernels, sampler, history);
  DrawScratch scratch(kernels);
  std::vector<int32_t> drafted;
  for (int k = 0; k < 40; ++k) {
    const std::vector<float> logits = random_logits(static_cast<uint32_t>(k % 3));
    const int32_t token = sampler.draw({logits.data(), static_cast<uint64_t>(3 + k)}, target, scratch)->token;
    EXPECT_EQ(drafts.draw(logits.data(), 3 + k, drafted), token) << k;
    target.append(token);
    drafted.push_back(token);
  }
}

TEST(DraftSampler, AgreesMoreOftenThanIndependentDraws) {
  const Ops& kernels = ops(best_isa());
  SamplingParams params;
  params.seed = 5;
  const Sampler sampler = Sampler::create(kernels, params, kVocab, {}).value();
  const TokenHistory history(params, {});
  RequestDraftSampler drafts(kernels, sampler, history);
  DrawScratch scratch(kernels);
  const std::vector<float> p = random_logits(1), noise = random_logits(2);
  std::vector<float> q = p;
  for (size_t i = 0; i < q.size(); ++i) q[i] += 0.1f * noise[i];
  int same = 0, shifted = 0;
  for (int position = 0; position < 500; ++position) {
    const int32_t token = sampler.draw({p.data(), static_cast<uint64_t>(position)}, history, scratch)->token;
    same += drafts.draw(q.data(), position, {}) == token ? 1 : 0;
    shifted += drafts.draw(q.data(), position + 1000, {}) == token ? 1 : 0;
  }
  EXPECT_GT(same, 400);
  EXPECT_LT(shifted, 100);
}

TEST(DraftSampler, EndsWhereNothingCanBeDrawn) {
  const Ops& kernels = ops(best_isa());
  const SamplingParams params;
  const Sampler sampler = Sampler::create(kernels, params, kVocab, {}).value();
  const TokenHistory history(params, {});
  const std::vector<float> broken(kVocab, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(RequestDraftSampler(kernels, sampler, history).draw(broken.data(), 0, {}), -1);
  const std::vector<uint32_t> none((kVocab + 31) / 32, 0u);
  RequestDraftSampler strict(kernels, sampler, history, [&](std::span<const int32_t>) { return none.data(); });
  EXPECT_EQ(strict.draw(random_logits(1).data(), 0, {}), -1);
}

}  // namespace
}  // namespace dspark
