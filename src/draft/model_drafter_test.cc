// Tests of model_drafter.h: what it drafts depends on the tokens alone, whatever it has computed and taken back before.
// On a tiny model. One thread and the pool's.
#include "draft/model_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace dspark {
namespace {

constexpr int kVocab = 283;

class Greedy final : public DraftSampler {
 public:
  int32_t draw(const float* logits, int, std::span<const int32_t>) override {
    return static_cast<int32_t>(std::max_element(logits, logits + kVocab) - logits);
  }
};

class ModelDrafterTest : public testing::Test {
 protected:
  std::unique_ptr<ModelDrafter> make(int64_t kv_positions = 1 << 14) {
    const auto file = ModelFile::open(DSPARK_TEST_DATA "/models/llama/llama.gguf");
    EXPECT_TRUE(file.ok());
    auto drafter = ModelDrafter::load(*file, kVocab, pool_, best_isa(), {.kv_positions = kv_positions});
    EXPECT_TRUE(drafter.ok()) << drafter.error().message;
    return std::move(*drafter);
  }

  // The drafts behind these sequences, numbered as they stand; called until each that can has one.
  std::vector<std::vector<int32_t>> drafts(ModelDrafter& drafter, const std::vector<std::vector<int32_t>>& sequences,
                                           int calls = 1) {
    std::vector<std::vector<int32_t>> out;
    for (int call = 0; call < calls; ++call) {
      std::vector<DraftRequest> requests;
      for (size_t i = 0; i < sequences.size(); ++i) {
        requests.push_back({.sequence = i, .tokens = sequences[i], .max_tokens = 5, .sampler = &greedy_});
      }
      std::vector<DraftRequest*> pointers;
      for (DraftRequest& request : requests) pointers.push_back(&request);
      drafter.propose(pointers);
      out.clear();
      for (const DraftRequest& request : requests) {
        EXPECT_FALSE(request.broken);
        out.emplace_back();
        float before = 1.0f;
        for (const DraftToken& token : request.draft) {
          out.back().push_back(token.token);
          EXPECT_LE(token.survival, before);
          before = token.survival;
        }
      }
    }
    return out;
  }

  std::vector<int32_t> random_tokens(size_t count) {
    std::vector<int32_t> out(count);
    for (int32_t& token : out) token = static_cast<int32_t>(random_() % kVocab);
    return out;
  }

  ThreadPool pool_{{.threads = 2}};
  Greedy greedy_;
  std::mt19937 random_{3};
};

TEST_F(ModelDrafterTest, WhatWasRejectedLeavesNoTrace) {
  const auto drafter = make();
  std::vector<std::vector<int32_t>> sequences(3);
  for (auto& sequence : sequences) sequence = random_tokens(40);
  for (int step = 0; step < 60; ++step) {
    const auto got = drafts(*drafter, sequences);
    EXPECT_EQ(got, drafts(*make(), sequences, 4)) << step;
    for (size_t i = 0; i < sequences.size(); ++i) {  // so many are accepted, then comes another token
      EXPECT_EQ(got[i].size(), 5u);
      const auto accepted = static_cast<ptrdiff_t>(random_() % 6);
      sequences[i].insert(sequences[i].end(), got[i].begin(), got[i].begin() + accepted);
      sequences[i].push_back(static_cast<int32_t>(random_() % kVocab));
      if (random_() % 16 == 0) sequences[i].resize(20);  // another sequence under the same name
    }
  }
}

TEST_F(ModelDrafterTest, CompanyChangesNothing) {
  std::vector<std::vector<int32_t>> sequences(9);
  for (size_t i = 0; i < sequences.size(); ++i) sequences[i] = random_tokens(3 + 7 * i);
  const auto together = drafts(*make(), sequences, 3);
  for (size_t i = 0; i < sequences.size(); ++i) {
    EXPECT_EQ(drafts(*make(), {sequences[i]}, 3)[0], together[i]) << i;
  }
}

TEST_F(ModelDrafterTest, ALongPromptIsCaughtUpWithInParts) {
  const std::vector<std::vector<int32_t>> sequences = {random_tokens(400), random_tokens(10)};
  const auto drafter = make();
  EXPECT_THAT(drafts(*drafter, sequences), testing::Each(testing::IsEmpty()));  // 256 rows of the first are all
  const auto second = drafts(*drafter, sequences);
  EXPECT_EQ(second[0].size(), 5u);
  EXPECT_EQ(second[1].size(), 5u);
}

TEST_F(ModelDrafterTest, LittleMemoryCostsDraftsAndNothingElse) {
  std::vector<std::vector<int32_t>> sequences(4);
  for (auto& sequence : sequences) sequence = random_tokens(60);
  const auto drafter = make(2 * kTilePositions);  // room for two
  const auto got = drafts(*drafter, sequences);
  const auto expected = drafts(*make(), sequences);
  EXPECT_EQ(got[0], expected[0]);
  EXPECT_EQ(got[1], expected[1]);
  EXPECT_THAT(got[2], testing::IsEmpty());
  EXPECT_EQ(drafts(*drafter, {sequences[3]})[0], drafts(*make(), {sequences[3]})[0]);  // it takes the others' room
  for (uint64_t id = 0; id < 4; ++id) drafter->release(id);
  EXPECT_EQ(drafter->kv().stats().sequences, 0);
  EXPECT_TRUE(drafter->kv().check().ok());
}

TEST_F(ModelDrafterTest, StopsWhereItsContextEnds) {
  EXPECT_THAT(drafts(*make(), {random_tokens(510)}, 4)[0], testing::IsEmpty());
}

TEST_F(ModelDrafterTest, MayEndWhereLittleSurvives) {
  const auto drafter = make();
  const std::vector<int32_t> tokens = random_tokens(30);
  const auto draft = [&](double least) {
    DraftRequest request = {
        .sequence = 1, .tokens = tokens, .max_tokens = 5, .least_survival = least, .sampler = &greedy_};
    DraftRequest* pointer = &request;
    drafter->propose({&pointer, 1});
    return request.draft;
  };
  const auto whole = draft(0.0);
  ASSERT_EQ(whole.size(), 5u);
  EXPECT_EQ(draft(1.0).size(), 1u);
  EXPECT_EQ(draft(static_cast<double>(whole[1].survival) + 1e-6).size(), 2u);
}

TEST_F(ModelDrafterTest, AnotherVocabularyIsRefused) {
  const auto file = ModelFile::open(DSPARK_TEST_DATA "/models/llama/llama.gguf");
  const auto drafter = ModelDrafter::load(*file, 500, pool_, best_isa(), {.kv_positions = 1024});
  ASSERT_FALSE(drafter.ok());
  EXPECT_THAT(drafter.error().message, testing::HasSubstr("a vocabulary of 283 tokens, the model has 500"));
}

TEST_F(ModelDrafterTest, SurvivalIsLearnt) {
  const auto drafter = make();
  const std::vector<int32_t> tokens = random_tokens(30);
  const auto first = [&] {
    DraftRequest request = {.sequence = 1, .tokens = tokens, .max_tokens = 1, .sampler = &greedy_};
    DraftRequest* pointer = &request;
    drafter->propose({&pointer, 1});
    return request.draft.at(0);
  };
  const DraftToken before = first();
  for (int i = 0; i < 100; ++i) drafter->verified({.sequence = 1, .draft = {&before, 1}, .accepted = 0});
  EXPECT_LT(first().survival, 0.2f * before.survival);
}

}  // namespace
}  // namespace dspark
