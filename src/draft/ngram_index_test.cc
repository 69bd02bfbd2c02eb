// The look-up against a plain search. Test thread.
#include "draft/ngram_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "draft/ngram_drafter.h"

namespace dspark {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

NgramIndex index_of(const std::vector<int32_t>& tokens) {
  NgramIndex index;
  index.catch_up(tokens);
  return index;
}

// The longest suffix that stands earlier too, at its newest place; up to `most` tokens.
NgramMatch search(const std::vector<int32_t>& tokens, int most) {
  const int n = static_cast<int>(tokens.size());
  NgramMatch best;
  for (int end = n - 1; end > 0; --end) {
    int length = 0;
    while (length < std::min(end, most) &&
           tokens[static_cast<size_t>(end - 1 - length)] == tokens[static_cast<size_t>(n - 1 - length)]) {
      ++length;
    }
    if (length > best.length) best = {length, end};
  }
  return best;
}

TEST(NgramIndex, FindsTheLongestSuffixAtItsNewestPlace) {
  const NgramIndex index = index_of({7, 1, 2, 3, 4, 5, 2, 3, 9, 1, 2, 3});
  EXPECT_EQ(index.match().length, 3);
  EXPECT_EQ(index.match().next, 4);
  EXPECT_THAT(index.continuation(3), ElementsAre(4, 5, 2));
  EXPECT_EQ(index_of({1, 2, 8, 1, 2, 9, 1, 2}).match().next, 5);
}

TEST(NgramIndex, GoesOnWithItselfAtTheEnd) {
  EXPECT_THAT(index_of({4, 1, 2, 3, 1, 2, 3, 1}).continuation(7), ElementsAre(2, 3, 1, 2, 3, 1, 2));
  EXPECT_THAT(index_of({6, 6}).continuation(3), ElementsAre(6, 6, 6));
}

TEST(NgramIndex, HasNothingToSayAboutNewTokens) {
  EXPECT_THAT(index_of({}).continuation(4), IsEmpty());
  EXPECT_THAT(index_of({5}).continuation(4), IsEmpty());
  EXPECT_THAT(index_of({1, 2, 3}).continuation(4), IsEmpty());
}

TEST(NgramIndex, EqualsAPlainSearch) {
  std::mt19937 random(5);
  for (const int vocabulary : {2, 3, 10, 200}) {
    std::vector<int32_t> tokens;
    NgramIndex index;
    for (int i = 0; i < 1500; ++i) {
      // Now and then a piece is copied, so that long matches occur.
      const bool copies = i > 50 && random() % 30 == 0;
      const size_t from = copies ? random() % tokens.size() : 0;
      const int count = copies ? 1 + static_cast<int>(random() % 20) : 1;
      for (int j = 0; j < count; ++j) {
        tokens.push_back(copies ? tokens[from + static_cast<size_t>(j)] : static_cast<int32_t>(random() % vocabulary));
        index.append(tokens.back());
        const NgramMatch found = index.match();
        const NgramMatch exact = search(tokens, NgramIndex::kMaxOrder);
        ASSERT_GE(found.length, exact.length) << i;
        if (exact.length < NgramIndex::kMaxOrder) {
          ASSERT_EQ(found.length, exact.length) << i;
        }
        if (found.length < NgramIndex::kMaxOrder) {
          ASSERT_EQ(found.next, exact.next) << i;
        }
        for (int k = 0; k < found.length; ++k) {
          ASSERT_EQ(tokens[static_cast<size_t>(found.next - 1 - k)],
                    tokens[tokens.size() - 1 - static_cast<size_t>(k)]);
        }
      }
    }
  }
}

TEST(NgramIndex, StartsAgainWhenTokensWereTakenBack) {
  NgramIndex index = index_of({1, 2, 3, 1, 2});
  index.catch_up(std::vector<int32_t>{1, 2, 3});
  EXPECT_EQ(index.size(), 3);
  EXPECT_EQ(index.match().length, 0);
}

DraftRequest request_of(const std::vector<int32_t>& tokens, uint64_t sequence, int count) {
  return {.sequence = sequence, .tokens = tokens, .max_tokens = count};
}

TEST(NgramDrafter, ProposesTheContinuation) {
  NgramDrafter drafter(std::make_shared<NgramStore>(), 8);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 1, 2, 3};
  DraftRequest request = request_of(tokens, 1, 2);
  DraftRequest* const requests[] = {&request};
  drafter.propose(requests);
  ASSERT_EQ(request.draft.size(), 2u);
  EXPECT_EQ(request.draft[0].token, 4);
  EXPECT_EQ(request.draft[1].token, 5);
  EXPECT_LT(request.draft[1].survival, request.draft[0].survival);
  EXPECT_GT(request.draft[1].survival, 0.0f);
}

TEST(NgramDrafter, LearnsOfEachSequenceAndOfAll) {
  NgramDrafter drafter(std::make_shared<NgramStore>(), 8);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 1, 2, 3};
  const auto survival = [&](uint64_t sequence) {
    DraftRequest request = request_of(tokens, sequence, 1);
    DraftRequest* const requests[] = {&request};
    drafter.propose(requests);
    return request.draft[0].survival;
  };
  const float usual = survival(1);
  const DraftToken drafted[] = {{4, usual, 0.0f}};
  for (int i = 0; i < 50; ++i) drafter.verified({1, drafted, 0});
  EXPECT_LT(survival(1), 0.1f);
  EXPECT_LT(survival(2), usual);
  EXPECT_GT(survival(2), survival(1));
  drafter.release(1);
  EXPECT_EQ(survival(1), survival(2));
}

TEST(NgramDrafter, WhatStandsBehindTheFirstMissIsNotCounted) {
  MatchSurvival::Record all, own;
  EXPECT_DOUBLE_EQ(MatchSurvival::chance(1, own, all), 0.25);
  MatchSurvival::observe(3, true, &own);
  EXPECT_DOUBLE_EQ(own.tried[2], 1.0);
  EXPECT_DOUBLE_EQ(own.taken[2], 1.0);
  NgramDrafter drafter(std::make_shared<NgramStore>(), 8);
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 1, 2};
  DraftRequest request = request_of(tokens, 1, 4);
  DraftRequest* const requests[] = {&request};
  drafter.propose(requests);
  const std::vector<DraftToken> before = request.draft;
  for (int i = 0; i < 20; ++i) drafter.verified({1, before, 0});
  drafter.propose(requests);
  EXPECT_LT(request.draft[0].survival, before[0].survival);
  EXPECT_NEAR(request.draft[1].survival / request.draft[0].survival, before[1].survival / before[0].survival, 1e-5);
}

}  // namespace
}  // namespace dspark
