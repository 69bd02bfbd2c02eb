// The token law: against the reference, in distribution, at its edges, and equal on every instruction set.
#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "engine/sampling_reference.h"

namespace dspark {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Tokens = std::vector<int32_t>;
using Logits = std::vector<float>;

Logits normal_logits(size_t vocab, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(-2.0f, spread);
  Logits out(vocab);
  for (float& x : out) x = normal(random);
  return out;
}

std::vector<Isa> supported() {
  std::vector<Isa> out;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_supported(isa)) out.push_back(isa);
  }
  return out;
}

// One sampler with its scratch and history.
struct Fixture {
  Fixture(SamplingParams params, size_t vocab, Isa isa = best_isa(), Tokens ends = {}, const Tokens& prompt = {})
      : sampler(Sampler::create(ops(isa), params, static_cast<int64_t>(vocab), ends).value()),
        history(sampler.params(), prompt),
        scratch(ops(isa)) {}

  Result<Draw> draw(const Logits& logits, uint64_t position, std::span<const int32_t> drafted = {},
                    const uint32_t* keep = nullptr) {
    return sampler.draw({logits.data(), position, drafted, keep}, history, scratch);
  }
  int32_t token(const Logits& logits, uint64_t position, std::span<const int32_t> drafted = {},
                const uint32_t* keep = nullptr) {
    return draw(logits, position, drafted, keep).value().token;
  }
  std::string error(const Logits& logits, const uint32_t* keep = nullptr) {
    const Result<Draw> out = draw(logits, 17, {}, keep);
    return out.ok() ? "" : out.error().message;
  }
  std::vector<int64_t> frequencies(const Logits& logits, int draws, const uint32_t* keep = nullptr) {
    std::vector<int64_t> out(logits.size());
    for (int i = 0; i < draws; ++i) ++out[static_cast<size_t>(token(logits, static_cast<uint64_t>(i), {}, keep))];
    return out;
  }

  Sampler sampler;
  TokenHistory history;
  DrawScratch scratch;
};

// ---- Distribution ----

constexpr int kDraws = 40'000;

void expect_distribution(const SamplingParams& params, const Logits& logits, const std::string& what) {
  const ReferenceKept kept = reference_keep(params, {logits.begin(), logits.end()});
  ASSERT_FALSE(kept.near_edge) << what;
  EXPECT_TRUE(fits(kept.probabilities, Fixture(params, logits.size()).frequencies(logits, kDraws))) << what;
}

TEST(SamplerDistribution, PlainSamplingIsSoftmax) {
  for (const double t : {0.1, 0.5, 1.0, 2.0, 100.0}) {
    for (const uint32_t seed : {1u, 2u, 3u}) {
      SamplingParams params;
      params.temperature = t;
      params.seed = seed;
      expect_distribution(params, normal_logits(12, 2.0f, seed), fmt::format("T {} seed {}", t, seed));
      expect_distribution(params, normal_logits(150, 1.5f, seed), fmt::format("T {} seed {}", t, seed));
    }
  }
}

TEST(SamplerDistribution, EachFilterAndAllTogether) {
  const Logits logits = normal_logits(20, 1.5f, 9);
  for (const double t : {0.5, 1.0, 2.0}) {
    SamplingParams params;
    params.temperature = t;
    SamplingParams top_k = params, top_p = params, min_p = params, all = params;
    top_k.top_k = 5;
    top_p.top_p = 0.8;
    min_p.min_p = 0.1;
    all.top_k = 12, all.top_p = 0.9, all.min_p = 0.05;
    expect_distribution(top_k, logits, fmt::format("top_k, T {}", t));
    expect_distribution(top_p, logits, fmt::format("top_p, T {}", t));
    expect_distribution(min_p, logits, fmt::format("min_p, T {}", t));
    expect_distribution(all, logits, fmt::format("all, T {}", t));
  }
}

TEST(SamplerDistribution, PenaltiesAndBias) {
  const Logits logits = normal_logits(16, 1.5f, 4);
  SamplingParams params;
  params.repetition_penalty = 1.3;
  params.repetition_window = 5;
  params.presence_penalty = 0.4;
  params.frequency_penalty = 0.3;
  params.logit_bias = {{2, 1.5f}, {3, -kInfinity}};
  const ReferenceHistory past = {{1, 2, 3, 4, 5, 6}, {7, 7, 1}};
  Fixture fixture(params, logits.size(), best_isa(), {}, past.prompt);
  for (const int32_t token : past.output) fixture.history.append(token);
  const ReferenceKept kept = reference_keep(params, reference_edit(params, logits, past));
  EXPECT_TRUE(fits(kept.probabilities, fixture.frequencies(logits, kDraws)));
}

TEST(SamplerDistribution, Grammar) {
  const Logits logits = normal_logits(40, 1.0f, 4);
  const uint32_t keep[] = {0xF0F0F0F0, 0x00000005};
  Logits masked = logits;
  for (size_t v = 0; v < 40; ++v) masked[v] = (keep[v / 32] >> (v % 32) & 1) != 0 ? logits[v] : -kInfinity;
  const ReferenceKept kept = reference_keep({}, {masked.begin(), masked.end()});
  EXPECT_TRUE(fits(kept.probabilities, Fixture({}, 40).frequencies(logits, kDraws, keep)));
}

// The test itself must be able to fail: it sees the likeliest token's odds raised by a tenth.
TEST(SamplerDistribution, ChiSquareSeesASmallBias) {
  Logits logits = normal_logits(12, 1.0f, 5);
  const ReferenceKept kept = reference_keep({}, {logits.begin(), logits.end()});
  *std::max_element(logits.begin(), logits.end()) += 0.1f;
  EXPECT_FALSE(fits(kept.probabilities, Fixture({}, 12).frequencies(logits, kDraws)));
}

// ---- The law itself ----

TEST(Sampler, FollowsTheLawOnEveryInstructionSet) {
  std::mt19937 random(8);
  int checked = 0;
  for (int round = 0; round < 400; ++round) {
    const size_t vocab = std::vector<size_t>{3, 70, 1000, 5000}[static_cast<size_t>(round % 4)];
    const Logits logits = normal_logits(vocab, std::vector<float>{0.1f, 2.0f, 6.0f}[random() % 3], random());
    const auto pick = [&](std::initializer_list<double> values) { return values.begin()[random() % values.size()]; };
    SamplingParams params;
    params.seed = random();
    params.temperature = pick({0.001, 0.2, 1.0, 1.5, 100.0});
    params.top_k = static_cast<int64_t>(pick({0, 0, 3, 50}));
    params.top_p = pick({1, 1, 0.5, 0.95});
    params.min_p = pick({0, 0, 0.05});
    if (round % 5 == 0) params.repetition_penalty = 1.2, params.frequency_penalty = 0.1;
    if (round % 7 == 0) params.logit_bias = {{1, 4.0f}, {2, -kInfinity}};
    ReferenceHistory past;
    for (int i = 0; i < 50; ++i) past.prompt.push_back(static_cast<int32_t>(random() % vocab));
    for (int i = 0; i < 20; ++i) past.output.push_back(static_cast<int32_t>(random() % vocab));
    const std::vector<double> edited = reference_edit(params, logits, past);
    const ReferenceKept kept = reference_keep(params, edited);
    double gap = 0;
    const uint64_t position = uint64_t{random()} << 8;
    const int32_t expected = reference_draw(params, edited, kept.order, position, &gap);
    // Edits are rounded to float there: differences of 1e-6 in a logit are 1e-6 / T in the score.
    if (kept.near_edge || gap < 4e-6 / params.temperature + 1e-9) continue;
    ++checked;
    for (const Isa isa : supported()) {
      Fixture fixture(params, vocab, isa, {}, past.prompt);
      for (const int32_t token : past.output) fixture.history.append(token);
      ASSERT_EQ(fixture.token(logits, position), expected) << "round " << round << " on " << isa_name(isa);
    }
  }
  EXPECT_GT(checked, 330);
}

// All of a draw, not only clear cases, for a vocabulary of a real model's size.
TEST(Sampler, EveryInstructionSetGivesTheSameBits) {
  std::mt19937 random(9);
  for (int round = 0; round < 40; ++round) {
    const Logits logits = normal_logits(49'152, round % 2 == 0 ? 3.0f : 0.5f, random());
    SamplingParams params;
    params.seed = random();
    params.temperature = round % 3 == 0 ? 1.5 : 0.8;
    params.top_p = round % 4 == 0 ? 1.0 : 0.9;
    params.top_k = round % 5 == 0 ? 50 : 0;
    params.min_p = round % 7 == 0 ? 0.02 : 0.0;
    params.logprobs = 5;
    Fixture reference(params, logits.size(), Isa::kPortable);
    const Draw expected = reference.draw(logits, 1000).value();
    for (const Isa isa : supported()) {
      Fixture fixture(params, logits.size(), isa);
      const Draw found = fixture.draw(logits, 1000).value();
      EXPECT_EQ(found.token, expected.token);
      EXPECT_EQ(std::bit_cast<uint32_t>(found.logprob), std::bit_cast<uint32_t>(expected.logprob));
      ASSERT_EQ(found.top.size(), expected.top.size());
      for (size_t i = 0; i < found.top.size(); ++i) {
        EXPECT_EQ(found.top[i].token, expected.top[i].token);
        EXPECT_EQ(std::bit_cast<uint32_t>(found.top[i].logprob), std::bit_cast<uint32_t>(expected.top[i].logprob));
      }
    }
  }
}

// The tokens themselves, so that a change of the law shows.
TEST(Sampler, TokensStayAsTheyAre) {
  Logits logits(1000);
  for (size_t v = 0; v < 1000; ++v) logits[v] = static_cast<float>(v * 7919 % 1000) * 0.015625f;
  SamplingParams params;
  params.seed = 42;
  Tokens plain, filtered;
  for (uint64_t position = 0; position < 8; ++position) {
    params.top_p = 1.0;
    plain.push_back(Fixture(params, 1000).token(logits, position));
    params.top_p = 0.9;
    filtered.push_back(Fixture(params, 1000).token(logits, position));
  }
  EXPECT_THAT(plain, ElementsAre(470, 766, 38, 556, 705, 568, 175, 457));
  EXPECT_THAT(filtered, ElementsAre(470, 766, 38, 556, 705, 568, 161, 457));
}

TEST(Sampler, SeedAndPositionMatterNothingElse) {
  const Logits logits(500, 0.0f);
  SamplingParams params;
  params.seed = 5;
  Fixture a(params, 500), b(params, 500);
  Tokens forward, backward;
  for (uint64_t p = 0; p < 50; ++p) forward.push_back(a.token(logits, p));
  for (uint64_t p = 50; p-- > 0;) backward.insert(backward.begin(), b.token(logits, p));
  EXPECT_EQ(forward, backward);
  params.seed = 6;
  Tokens other;
  for (uint64_t p = 0; p < 50; ++p) other.push_back(Fixture(params, 500).token(logits, p));
  EXPECT_NE(forward, other);
}

// A shift of all logits changes nothing: the law sees differences only. (Powers of two keep them exact.)
TEST(Sampler, OnlyDifferencesOfLogitsMatter) {
  Logits logits(300);
  for (size_t v = 0; v < 300; ++v) logits[v] = static_cast<float>(v % 37) * 0.125f;
  Logits shifted = logits;
  for (float& x : shifted) x += 1024.0f;
  SamplingParams params;
  params.top_p = 0.9;
  Fixture fixture(params, 300);
  for (uint64_t p = 0; p < 200; ++p) EXPECT_EQ(fixture.token(logits, p), fixture.token(shifted, p));
}

// The noise that wins against the odds is the precise tail: a token 14 below the others' best noise, lifted by its own,
// wins or loses by a difference of 1e-5.
TEST(Sampler, TheWinnersTailIsPrecise) {
  constexpr int32_t kVocab = 4096;
  Logits logits(kVocab, 0.0f);
  SamplingParams params;
  Fixture fixture(params, kVocab);
  int found = 0;
  for (uint64_t position = 0; position < 3000; ++position) {
    uint32_t lowest = 0xFFFFFFFF;
    int32_t token = 0;
    double rest = -100;
    for (int32_t v = 0; v < kVocab; ++v) {
      const uint32_t word = noise_word({0, position}, v);
      if (word < lowest) lowest = word, token = v;
    }
    if (lowest > 2000) continue;
    ++found;
    for (int32_t v = 0; v < kVocab; ++v) {
      const double w = (noise_word({0, position}, v) + 0.5) * 0x1p-32;
      if (v != token) rest = std::max(rest, -std::log(-std::log1p(-w)));
    }
    const double w = (lowest + 0.5) * 0x1p-32;
    const double lead = -std::log(-std::log1p(-w)) - rest;
    logits[static_cast<size_t>(token)] = static_cast<float>(-lead + 1e-5);
    EXPECT_EQ(fixture.token(logits, position), token);
    logits[static_cast<size_t>(token)] = static_cast<float>(-lead - 1e-5);
    EXPECT_NE(fixture.token(logits, position), token);
    logits[static_cast<size_t>(token)] = 0.0f;
  }
  EXPECT_GT(found, 2);
}

// ---- Greedy and extreme temperatures ----

TEST(Sampler, GreedyTakesTheLowestOfTies) {
  SamplingParams params;
  params.temperature = 0;
  for (const Isa isa : supported()) {
    Logits logits(777, -1.0f);
    logits[300] = logits[301] = logits[776] = 2.0f;
    EXPECT_EQ(Fixture(params, 777, isa).token(logits, 0), 300);
  }
}

TEST(Sampler, TopKOfOneIsGreedy) {
  SamplingParams greedy, one;
  greedy.temperature = 0;
  one.top_k = 1;
  one.temperature = 5.0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Logits logits = normal_logits(3000, 1.0f, seed);
    if (seed % 2 == 0) {
      for (float& x : logits) x = std::round(x);
    }
    EXPECT_EQ(Fixture(one, 3000).token(logits, seed), Fixture(greedy, 3000).token(logits, seed));
  }
}

TEST(Sampler, ExtremeTemperatures) {
  Logits logits = normal_logits(1000, 1.0f, 2);
  const int32_t top = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (const double t : {1e-3, 1e-9, 1e-40, 1e-310}) {
    SamplingParams params;
    params.temperature = t;
    params.top_p = 0.99;
    Fixture fixture(params, 1000);
    for (uint64_t p = 0; p < 100; ++p) EXPECT_EQ(fixture.token(logits, p), top) << t;
  }
  // Ties share the mass however cold it is.
  const Logits tied = {3.0f, 3.0f, 2.9f};
  SamplingParams cold;
  cold.temperature = 1e-310;
  const auto counts = Fixture(cold, 3).frequencies(tied, 1000);
  EXPECT_GT(counts[0], 400);
  EXPECT_GT(counts[1], 400);
  EXPECT_EQ(counts[2], 0);
  SamplingParams hot;
  hot.temperature = kMaxTemperature;
  const std::vector<double> uniform(10, 0.1);
  EXPECT_TRUE(fits(uniform, Fixture(hot, 10).frequencies(normal_logits(10, 3.0f, 1), 10'000)));
}

// ---- Broken and forbidden rows ----

TEST(Sampler, BrokenLogitsAreAnErrorOfThatRow) {
  for (const double t : {0.0, 1.0}) {
    for (const Isa isa : supported()) {
      SamplingParams params;
      params.temperature = t;
      Fixture fixture(params, 1000, isa);
      Logits logits = normal_logits(1000, 1.0f, 1);
      const int32_t before = fixture.token(logits, 17);
      logits[999] = std::nanf("");
      EXPECT_THAT(fixture.error(logits), HasSubstr("the logits of position 17 hold NaN, expected finite numbers"));
      logits[999] = kInfinity;
      EXPECT_THAT(fixture.error(logits), HasSubstr("hold infinity"));
      logits.assign(1000, -kInfinity);
      EXPECT_THAT(fixture.error(logits), HasSubstr("leave no token to choose"));
      EXPECT_EQ(fixture.token(normal_logits(1000, 1.0f, 1), 17), before);
    }
  }
}

TEST(Sampler, AMaskDoesNotHideBrokenLogits) {
  for (const double t : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = t;
    Fixture fixture(params, 40);
    Logits logits(40, 1.0f);
    logits[3] = std::nanf("");
    const uint32_t keep[] = {0xFFFFFFF0, 0xFF};
    EXPECT_THAT(fixture.error(logits, keep), HasSubstr("hold NaN"));
  }
}

TEST(Sampler, MinusInfinityIsNeverDrawn) {
  Logits logits(600, -kInfinity);
  logits[123] = -50.0f;
  for (const double t : {0.0, 0.5, 100.0}) {
    SamplingParams params;
    params.temperature = t;
    Fixture fixture(params, 600);
    for (uint64_t p = 0; p < 50; ++p) EXPECT_EQ(fixture.token(logits, p), 123);
    params.top_p = 0.5;
    params.top_k = 30;
    EXPECT_EQ(Fixture(params, 600).token(logits, 0), 123);
  }
}

TEST(Sampler, GrammarKeepsAndForbids) {
  const Logits logits = normal_logits(70, 2.0f, 3);
  uint32_t keep[3] = {0, 0, 0};
  for (const double t : {0.0, 1.0}) {
    SamplingParams params;
    params.temperature = t;
    Fixture fixture(params, 70);
    keep[2] = 0;
    EXPECT_THAT(fixture.error(logits, keep), HasSubstr("leave no token to choose"));
    keep[2] = 0xFFFFFF20;  // token 69, and bits beyond the vocabulary
    EXPECT_EQ(fixture.token(logits, 0, {}, keep), 69);
  }
}

TEST(Sampler, BiasForbidsAndForces) {
  const Logits logits = normal_logits(50, 2.0f, 3);
  SamplingParams params;
  params.logit_bias = {{7, 1000.0f}};
  EXPECT_EQ(Fixture(params, 50).token(logits, 0), 7);
  params.temperature = 0;
  EXPECT_EQ(Fixture(params, 50).token(logits, 0), 7);
  params.logit_bias.clear();
  for (int32_t token = 0; token < 50; ++token) {
    if (token != 31) params.logit_bias.emplace_back(token, -kInfinity);
  }
  EXPECT_EQ(Fixture(params, 50).token(logits, 0), 31);
}

// ---- Penalties, drafts, ends ----

TEST(Sampler, PenaltiesAsWritten) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 2.0;
  const Tokens prompt = {0, 1};
  // Positive logits are halved, negative ones doubled.
  EXPECT_EQ(Fixture(params, 3, best_isa(), {}, prompt).token({4.0f, 1.0f, 2.1f}, 0), 2);
  EXPECT_EQ(Fixture(params, 3, best_isa(), {}, prompt).token({4.0f, 1.0f, 1.9f}, 0), 0);
  EXPECT_EQ(Fixture(params, 3, best_isa(), {}, prompt).token({-2.0f, -3.0f, -3.9f}, 0), 2);
  EXPECT_EQ(Fixture(params, 3, best_isa(), {}, prompt).token({-2.0f, -3.0f, -4.1f}, 0), 0);
  params.repetition_window = 1;  // token 0 is too old
  EXPECT_EQ(Fixture(params, 3, best_isa(), {}, prompt).token({4.0f, 1.0f, 2.1f}, 0), 0);

  SamplingParams output;
  output.temperature = 0;
  output.frequency_penalty = 0.5;
  output.presence_penalty = 0.25;
  Fixture fixture(output, 3, best_isa(), {}, prompt);
  const Logits logits = {2.0f, 1.0f, 0.9f};
  EXPECT_EQ(fixture.token(logits, 0), 0);  // the prompt does not count
  fixture.history.append(0);               // 1.25
  EXPECT_EQ(fixture.token(logits, 0), 0);
  fixture.history.append(0);  // 0.75
  EXPECT_EQ(fixture.token(logits, 0), 1);
  fixture.history.append(1);  // 0.25
  EXPECT_EQ(fixture.token(logits, 0), 2);
}

// A row behind drafted tokens gives what it gives when they are part of the output.
TEST(Sampler, DraftedTokensCountAsOutput) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    SamplingParams params;
    params.temperature = round % 2 == 0 ? 0.0 : 1.0;
    params.seed = random();
    params.repetition_penalty = 1.5;
    params.repetition_window = static_cast<int64_t>(random() % 12) - 1;
    params.frequency_penalty = 0.5;
    params.min_tokens = 6;
    params.stop_token_ids = {3};
    Tokens prompt(10), output(random() % 6), drafted(random() % 6);
    for (Tokens* tokens : {&prompt, &output, &drafted}) {
      for (int32_t& token : *tokens) token = static_cast<int32_t>(random() % 12);
    }
    const Logits logits = normal_logits(12, 1.0f, random());
    Fixture before(params, 12, best_isa(), {}, prompt), after(params, 12, best_isa(), {}, prompt);
    for (const int32_t token : output) before.history.append(token), after.history.append(token);
    for (const int32_t token : drafted) after.history.append(token);
    for (uint64_t p = 0; p < 20; ++p) ASSERT_EQ(before.token(logits, p, drafted), after.token(logits, p));
  }
}

TEST(Sampler, MinTokensHoldsBackEveryEnd) {
  SamplingParams params;
  params.stop_token_ids = {5};
  params.min_tokens = 2;
  for (const double t : {0.0, 1.0}) {
    params.temperature = t;
    Logits logits(10, 0.0f);
    logits[2] = 30.0f, logits[5] = 40.0f, logits[6] = 25.0f;
    Fixture fixture(params, 10, best_isa(), {2});
    EXPECT_TRUE(fixture.sampler.ends(2));
    EXPECT_TRUE(fixture.sampler.ends(5));
    EXPECT_FALSE(fixture.sampler.ends(6));
    EXPECT_EQ(fixture.token(logits, 0), 6);
    EXPECT_EQ(fixture.token(logits, 0, Tokens{6}), 6);
    EXPECT_EQ(fixture.token(logits, 0, Tokens{6, 6}), 5);
    fixture.history.append(6);
    fixture.history.append(6);
    EXPECT_EQ(fixture.token(logits, 0), 5);
  }
}

TEST(Sampler, IgnoreEosNeverDrawsTheModelsEnds) {
  SamplingParams params;
  params.ignore_eos = true;
  params.stop_token_ids = {5};
  Logits logits(10, 0.0f);
  logits[2] = 40.0f, logits[5] = 30.0f;
  for (const double t : {0.0, 1.0}) {
    params.temperature = t;
    Fixture fixture(params, 10, best_isa(), {2});
    EXPECT_EQ(fixture.token(logits, 0), 5);
    EXPECT_FALSE(fixture.sampler.ends(2));
    EXPECT_TRUE(fixture.sampler.ends(5));
  }
}

TEST(Sampler, CreateRefusesBadParameters) {
  SamplingParams params;
  params.top_p = 2;
  EXPECT_FALSE(Sampler::create(ops(best_isa()), params, 10, {}).ok());
}

// ---- Log-probabilities ----

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  for (const size_t vocab : {5u, 300u, 20'000u}) {
    for (const float spread : {0.1f, 3.0f, 30.0f}) {
      const Logits logits = normal_logits(vocab, spread, 6);
      const double max = *std::max_element(logits.begin(), logits.end());
      double sum = 0;
      for (const float x : logits) sum += std::exp(x - max);
      const auto exact = [&](int32_t token) { return logits[static_cast<size_t>(token)] - max - std::log(sum); };
      SamplingParams params;
      params.logprobs = 7;
      params.temperature = 0.5;  // neither this nor the rest shows in log-probabilities
      params.top_k = 2;
      params.logit_bias = {{3, 60.0f}};
      Fixture fixture(params, vocab);
      const Draw draw = fixture.draw(logits, 0).value();
      EXPECT_NEAR(draw.logprob, exact(draw.token), 1e-6 + 3e-7 * std::fabs(exact(draw.token)));
      ASSERT_EQ(draw.top.size(), std::min<size_t>(7, vocab));
      EXPECT_EQ(draw.top[0].token, std::max_element(logits.begin(), logits.end()) - logits.begin());
      for (size_t i = 0; i < draw.top.size(); ++i) {
        EXPECT_NEAR(draw.top[i].logprob, exact(draw.top[i].token), 1e-6 + 3e-7 * std::fabs(exact(draw.top[i].token)));
        EXPECT_LE(draw.top[i].logprob, draw.top[i == 0 ? 0 : i - 1].logprob);
      }
    }
  }
}

TEST(Sampler, LogprobsOnlyWhereAsked) {
  SamplingParams params;
  const Logits logits = {0.0f, 0.0f};
  EXPECT_TRUE(std::isnan(Fixture(params, 2).draw(logits, 0).value().logprob));
  params.logprobs = 0;
  params.temperature = 0;
  Fixture fixture(params, 2);
  const Draw draw = fixture.draw(logits, 0).value();
  EXPECT_NEAR(draw.logprob, -std::log(2.0), 1e-7);
  EXPECT_TRUE(draw.top.empty());
}

}  // namespace
}  // namespace dspark
