// Tests of bootstrap.h and tune_search.h, on times that are made up: no clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tools/tune_search.h"

namespace dspark {
namespace {

Round made_up(double mean, double noise, std::mt19937_64& random, size_t requests = 30) {
  std::lognormal_distribution<double> spread(0.0, 0.4), mood(0.0, noise);
  const double host = mood(random);
  Round out(requests);
  for (size_t i = 0; i < requests; ++i) {
    std::mt19937_64 own(i);  // a request is as long in every round
    const double seconds = mean * spread(own) * host * mood(random);
    out[i] = {.first = 0.1 * seconds, .whole = seconds, .gaps = {0.01 * seconds, 0.02 * seconds}};
  }
  return out;
}

TEST(Bootstrap, TheIntervalHoldsTheTrueRatioAndTellsDifferencesFromNoise) {
  std::mt19937_64 random(7);
  int held = 0, alarms = 0, found = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<Round> a, b, same;
    for (int r = 0; r < 3; ++r) {
      a.push_back(made_up(0.8, 0.02, random));
      b.push_back(made_up(1.0, 0.02, random));
      same.push_back(made_up(1.0, 0.02, random));
    }
    const Interval ratio = ratio_interval(a, b, mean_whole, 200);
    held += ratio.low <= 0.8 && 0.8 <= ratio.high;
    found += ratio.below(1.0);
    const Interval none = ratio_interval(same, b, mean_whole, 200);
    alarms += none.below(0.99);
  }
  EXPECT_GE(held, 54);
  EXPECT_EQ(found, 60);
  EXPECT_LE(alarms, 6);
  const std::vector<Round> one = {made_up(1.0, 0.02, random)};
  EXPECT_EQ(ratio_interval(one, one, mean_whole).value, 1.0);
  EXPECT_EQ(ratio_interval(one, one, gap_percentile(0.5)).value, 1.0);
}

// Times of a machine for which the middle of each range is best, with an interaction between two of them.
double truth(const Candidate& c) {
  const double budget = std::stod(c.at("step-budget")), threshold = std::stod(c.at("threshold"));
  const double memory = std::stod(c.at("memory"));
  return 1.0 + 0.4 * std::abs(std::log2(budget / 128.0)) + 2.0 * std::abs(threshold - 0.3) +
         (memory < 64 ? 64.0 / memory - 1.0 : 0.0) + (budget > 256 && threshold > 0.5 ? 0.5 : 0.0);
}

TEST(TuneSearch, FindsWhatWasMadeBadOnPurpose) {
  const std::vector<Knob> knobs = {{"memory", {"16", "64", "256"}},
                                   {"step-budget", {"32", "64", "128", "256", "512"}},
                                   {"threshold", {"0", "0.3", "0.6", "0.9"}}};
  double best = 1e9;
  for (const auto& m : knobs[0].values) {
    for (const auto& b : knobs[1].values) {
      for (const auto& t : knobs[2].values) {
        best = std::min(best, truth({{"memory", m}, {"step-budget", b}, {"threshold", t}}));
      }
    }
  }
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    const auto measure = [&](const Candidate& c) -> Result<Round> { return made_up(truth(c), 0.03, random); };
    for (const Candidate& start : {Candidate{{"memory", "16"}, {"step-budget", "128"}, {"threshold", "0.3"}},
                                   Candidate{{"memory", "64"}, {"step-budget", "512"}, {"threshold", "0.9"}},
                                   Candidate{{"memory", "256"}, {"step-budget", "32"}, {"threshold", "0"}}}) {
      const auto found = search_settings(start, knobs, {}, measure, [] { return 0.0; });
      ASSERT_TRUE(found.ok());
      EXPECT_LE(truth(found->best), 1.05 * best) << seed;
      EXPECT_TRUE(found->in_time);
    }
  }
}

TEST(TuneSearch, LeavesAloneWhatTheNoiseDoesNotTellApart) {
  std::mt19937_64 random(3);
  int changed = 0;
  for (int i = 0; i < 20; ++i) {
    const auto measure = [&](const Candidate&) -> Result<Round> { return made_up(1.0, 0.05, random); };
    const auto found = search_settings({{"x", "1"}}, {{"x", {"1", "2", "3"}}}, {}, measure, [] { return 0.0; });
    changed += found->best.at("x") != "1";
  }
  EXPECT_LE(changed, 6);
  int asked = 0;
  const auto out = search_settings(
      {{"x", "1"}}, {{"x", {"1", "2", "3", "4", "5", "6"}}}, {},
      [&](const Candidate&) -> Result<Round> { return made_up(1.0, 0.0, random); },
      [&] { return asked++ > 0 ? 1.0 : 0.0; });
  EXPECT_FALSE(out->in_time);
  EXPECT_EQ(out->trials.size(), 4u);
}

// On a real server a replay takes a hundredth of the time that tune has.
TEST(TuneSearch, SomeSixtyReplaysAreEnoughForManySettings) {
  std::vector<Knob> knobs;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) knobs.push_back({name, {"1", "2", "3", "4"}});
  const auto truth_of = [](const Candidate& c) {
    return 1.0 + (c.at("g") == "1" ? 0.5 : 0.0) + (c.at("f") == "1" ? 0.3 : 0.0);
  };
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::mt19937_64 random(seed);
    Candidate start;
    for (const Knob& knob : knobs) start[knob.setting] = knob.values[0];
    int replays = 0;
    const auto measure = [&](const Candidate& c) -> Result<Round> {
      ++replays;
      return made_up(truth_of(c), 0.03, random);
    };
    const auto found = search_settings(start, knobs, {}, measure, [&] { return replays / 60.0; });
    EXPECT_NE(found->best.at("g"), "1") << seed;
    EXPECT_NE(found->best.at("f"), "1") << seed;
  }
}

TEST(TuneSearch, WhatCannotBeMeasuredIsPassedOver) {
  std::mt19937_64 random(5);
  const auto measure = [&](const Candidate& c) -> Result<Round> {
    if (c.at("x") == "2") return make_error(ErrorCode::kExhausted, "no memory");
    return made_up(c.at("x") == "3" ? 0.5 : 1.0, 0.02, random);
  };
  const auto found = search_settings({{"x", "1"}}, {{"x", {"2", "3"}}}, {}, measure, [] { return 0.0; });
  EXPECT_EQ(found->best.at("x"), "3");
  EXPECT_EQ(found->trials[0].failure, "no memory");
}

}  // namespace
}  // namespace dspark
