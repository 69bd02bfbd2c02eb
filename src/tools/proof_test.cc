// Tests of proof.h: the comparison finds the first thing that differs, and a case that has not happened does not count.
#include "tools/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace dspark {
namespace {

std::vector<StreamedAnswer> two_answers() {
  return {{.tag = 0, .tokens = {5, 6, 7}, .logprobs = {-0.5f, -1.0f, -0.25f}},
          {.tag = 1, .tokens = {8, 9}, .logprobs = {-2.0f, 0.0f}, .end_token = 2}};
}

TEST(Proof, EqualAnswersDoNotDiffer) {
  EXPECT_FALSE(first_difference(two_answers(), two_answers()));
  EXPECT_EQ(answers_digest(two_answers()), answers_digest(two_answers()));
}

// Changes the answers, and expects the comparison to say so.
ProofDifference difference_after(const std::function<void(std::vector<StreamedAnswer>&)>& change) {
  std::vector<StreamedAnswer> changed = two_answers();
  change(changed);
  const auto found = first_difference(changed, two_answers());
  EXPECT_TRUE(found);
  EXPECT_NE(answers_digest(changed), answers_digest(two_answers()));
  return found.value_or(ProofDifference{});
}

TEST(Proof, ATokenThatDiffersIsFound) {
  const ProofDifference found = difference_after([](auto& answers) { answers[1].tokens = {8, 10}; });
  EXPECT_EQ(found.request, 1u);
  EXPECT_EQ(found.position, 1u);
  EXPECT_EQ(found.got, "token 10");
  EXPECT_EQ(found.expected, "token 9");
}

TEST(Proof, TheFirstDifferenceCounts) {
  const ProofDifference found = difference_after([](auto& answers) {
    answers[0].tokens[2] = 1;
    answers[1].tokens[0] = 1;
  });
  EXPECT_EQ(found.request, 0u);
  EXPECT_EQ(found.position, 2u);
}

TEST(Proof, ALostOrAddedTokenIsFound) {
  const ProofDifference shorter = difference_after([](auto& answers) {
    answers[0].tokens.pop_back();
    answers[0].logprobs.pop_back();
  });
  EXPECT_EQ(shorter.position, 2u);
  EXPECT_EQ(shorter.got, "the end");
  EXPECT_EQ(shorter.expected, "token 7");
  const ProofDifference longer = difference_after([](auto& answers) {
    answers[1].tokens.push_back(3);
    answers[1].logprobs.push_back(-1.0f);
  });
  EXPECT_EQ(longer.got, "token 3");
  EXPECT_EQ(longer.expected, "the end");
}

TEST(Proof, ASingleBitOfALogProbabilityIsFound) {
  const ProofDifference found =
      difference_after([](auto& answers) { answers[0].logprobs[1] = std::nextafter(-1.0f, 0.0f); });
  EXPECT_EQ(found.position, 1u);
  EXPECT_THAT(found.got, testing::HasSubstr("bits bf7fffff"));
  EXPECT_THAT(found.expected, testing::HasSubstr("bits bf800000"));
  EXPECT_EQ(difference_after([](auto& answers) { answers[1].logprobs[1] = -0.0f; }).position, 1u);
}

TEST(Proof, AnotherEndIsFound) {
  std::vector<StreamedAnswer> changed = two_answers();
  changed[1].end_token = {};
  EXPECT_EQ(first_difference(changed, two_answers())->got, "the end by a limit");
}

TEST(Proof, ACaseThatDidNotHappenShowsNothing) {
  LoopStats stats;
  EXPECT_EQ(missing_evidence({}, stats), "");
  EXPECT_EQ(missing_evidence({.misses = true}, stats), "");
  EXPECT_EQ(missing_evidence({.drafts = true}, stats), "no token was guessed");
  EXPECT_EQ(missing_evidence({.hits = true}, stats), "no prompt was found in the cache");
  EXPECT_EQ(missing_evidence({.preemptions = true}, stats), "nothing was preempted");
  stats.most_running = 31;
  EXPECT_EQ(missing_evidence({.running = 32}, stats), "at most 31 sequences ran at once, expected 32");
  stats.most_running = 32;
  stats.drafted = stats.cached_tokens = stats.preemptions = 1;
  EXPECT_EQ(missing_evidence({.drafts = true, .hits = true, .preemptions = true, .running = 32}, stats), "");
  EXPECT_EQ(missing_evidence({.misses = true}, stats), "1 tokens of prompts were found in the cache, expected none");
}

TEST(Proof, EveryAxisIsThere) {
  std::set<std::string> all, quick;
  for (const ProofCase& each : proof_cases({.dspark = true})) all.insert(each.axis + " " + each.value);
  for (const ProofCase& each : proof_cases({.quick = true})) quick.insert(each.axis + " " + each.value);
  for (const char* each :
       {"speculation fixed:1", "speculation fixed:7", "speculation planned", "speculation ngram", "speculation dspark",
        "batch 1", "batch 8", "batch 32", "chunk 1", "chunk 7", "chunk 128", "chunk whole", "threads 1", "threads 2",
        "threads 3", "cache miss", "cache hit", "preemption crowded"}) {
    EXPECT_TRUE(all.contains(each)) << each;
  }
  EXPECT_TRUE(std::ranges::includes(all, quick));
  EXPECT_LT(quick.size(), all.size());
  if (best_isa() != Isa::kPortable) {
    EXPECT_TRUE(quick.contains("isa portable"));
  }
}

TEST(Proof, RequestsAreManyGreedyAndSeededAndEndBeforeABlockEnds) {
  const std::vector<std::vector<int32_t>> prompts = {{1, 2, 3}, std::vector<int32_t>(200, 4)};
  const std::vector<int32_t> filler = {9, 8};
  const auto requests = proof_requests(prompts, filler, 16, 400, 7);
  EXPECT_EQ(requests.size(), 32u);
  std::set<uint64_t> seeds;
  for (size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i].request;
    EXPECT_EQ(request.prompt.size(), i % 2 == 0 ? 120u : 248u);
    EXPECT_EQ(request.prompt.back(), i % 2 == 0 ? 3 : 4);
    EXPECT_EQ(request.sampling.temperature, i < 2 ? 0.0 : 1.0);
    seeds.insert(request.sampling.seed);
  }
  EXPECT_EQ(seeds.size(), 32u);
  EXPECT_EQ(crowded_blocks(requests), 9);
  EXPECT_EQ(proof_requests(prompts, filler, 16, 220, 7)[1].request.prompt.size(), 200u);  // no room for more
}

}  // namespace
}  // namespace dspark
