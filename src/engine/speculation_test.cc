// Tests of speculation.h, with drafters that propose from tables. One thread.
#include "engine/speculation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>

namespace dspark {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Proposes the same to everybody, and remembers what it hears.
class Fixed final : public Drafter {
 public:
  explicit Fixed(std::vector<float> survival, int32_t token = 7) : survival_(std::move(survival)), token_(token) {}

  std::string_view name() const override { return "fixed"; }
  int max_tokens() const override { return 8; }
  bool costs_time() const override { return costs; }
  void propose(std::span<DraftRequest* const> requests) override {
    for (DraftRequest* request : requests) {
      asked.push_back(request->sequence);
      request->broken = broken;
      for (size_t i = 0; i < survival_.size() && static_cast<int>(i) < request->max_tokens; ++i) {
        request->draft.push_back({token_, survival_[i], std::numeric_limits<float>::quiet_NaN()});
      }
    }
  }
  void verified(const VerifiedDraft& result) override { heard.emplace_back(result.draft.size(), result.accepted); }
  void release(uint64_t sequence) override { released.push_back(sequence); }

  bool broken = false, costs = false;
  std::vector<uint64_t> asked, released;
  std::vector<std::pair<size_t, int>> heard;

 private:
  std::vector<float> survival_;
  int32_t token_;
};

CostModel cost_of(double slope) {
  std::vector<CostPoint> points;
  for (int rows = 1; rows <= 32; ++rows) points.push_back({rows, 4.0 + slope * (rows - 1)});
  return *CostModel::create(points, {});
}

struct Bench {
  std::vector<int32_t> tokens = {1, 2, 3};

  // The drafts of so many choices, all with this room.
  std::vector<std::vector<int32_t>> drafts(Speculation& speculation, const CostModel& cost, int count, int room = 8) {
    std::vector<Speculated> choices;
    for (int i = 0; i < count; ++i) {
      choices.push_back({.id = static_cast<uint64_t>(i) + 1, .tokens = tokens, .room = room});
    }
    std::vector<Speculated*> pointers;
    for (Speculated& choice : choices) pointers.push_back(&choice);
    speculation.propose(pointers, {}, cost);
    std::vector<std::vector<int32_t>> out;
    for (const Speculated& choice : choices) {
      out.emplace_back();
      for (const DraftToken& token : choice.draft) out.back().push_back(token.token);
    }
    return out;
  }
};

TEST(Speculation, VerifiesWhatPays) {
  auto drafter = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.5f, 0.05f});
  Speculation speculation({}, {drafter});
  EXPECT_THAT(Bench().drafts(speculation, cost_of(0.4), 1), ElementsAre(ElementsAre(7, 7)));
  EXPECT_THAT(Bench().drafts(speculation, cost_of(8.0), 1), ElementsAre(IsEmpty()));
}

TEST(Speculation, TheBetterProposalCounts) {
  auto weak = std::make_shared<Fixed>(std::vector<float>{0.4f}, 1),
       strong = std::make_shared<Fixed>(std::vector<float>{0.8f, 0.7f}, 2),
       equal = std::make_shared<Fixed>(std::vector<float>{0.8f, 0.7f}, 3);
  Speculation speculation({}, {weak, strong, equal});
  EXPECT_THAT(Bench().drafts(speculation, cost_of(0.1), 1), ElementsAre(ElementsAre(2, 2)));
  speculation.verified(1, 1);
  EXPECT_THAT(strong->heard, ElementsAre(std::pair<size_t, int>(2, 1)));
  EXPECT_THAT(weak->heard, IsEmpty());
  EXPECT_THAT(equal->heard, IsEmpty());
}

TEST(Speculation, ObeysItsSettings) {
  const std::vector<float> survival = {0.9f, 0.8f, 0.7f, 0.6f};
  const auto depth = [&](SpeculationOptions options, int room = 8) {
    Speculation speculation(options, {std::make_shared<Fixed>(survival)});
    return Bench().drafts(speculation, cost_of(0.1), 1, room)[0].size();
  };
  EXPECT_EQ(depth({}), 4u);
  EXPECT_EQ(depth({.enabled = false}), 0u);
  EXPECT_EQ(depth({.fixed = 0}), 0u);
  EXPECT_EQ(depth({.fixed = 3}), 3u);
  EXPECT_EQ(depth({.most_tokens = 2}), 2u);
  EXPECT_EQ(depth({.floor = 0.75}), 2u);
  EXPECT_EQ(depth({}, 1), 1u);
  EXPECT_EQ(depth({}, 0), 0u);
  EXPECT_EQ(depth({}, -3), 0u);
}

TEST(Speculation, ABrokenDrafterLosesItsDraftAndNothingElse) {
  auto broken = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.9f}, 1);
  broken->broken = true;
  auto sound = std::make_shared<Fixed>(std::vector<float>{0.5f}, 2);
  Speculation speculation({}, {broken, sound});
  EXPECT_THAT(Bench().drafts(speculation, cost_of(0.1), 1), ElementsAre(ElementsAre(2)));
  EXPECT_EQ(speculation.stats().broken, 1);
}

TEST(Speculation, AChoiceThatKeepsFailingPausesAndTriesAgain) {
  auto drafter = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.8f});
  Speculation speculation({}, {drafter});
  const CostModel cost = cost_of(0.1);
  std::vector<size_t> drafted;
  for (int step = 0; step < 30; ++step) {
    drafted.push_back(Bench().drafts(speculation, cost, 1)[0].size());
    speculation.verified(1, 0);
  }
  // Five failures, eight steps of rest, five failures, and so on.
  for (size_t step = 0; step < drafted.size(); ++step) {
    const bool rests = (step >= 5 && step < 13) || step >= 18;
    EXPECT_EQ(drafted[step], rests ? 0u : 2u) << step;
  }
  EXPECT_EQ(speculation.stats().pauses, 2);
  EXPECT_EQ(speculation.stats().failures, 10);
}

TEST(Speculation, CountsByPlace) {
  auto drafter = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.8f, 0.7f});
  Speculation speculation({}, {drafter});
  const CostModel cost = cost_of(0.01);
  for (const int accepted : {3, 1, 0}) {
    Bench().drafts(speculation, cost, 1);
    speculation.verified(1, accepted);
  }
  const SpeculationStats& stats = speculation.stats();
  EXPECT_EQ(stats.verifications, 3);
  EXPECT_EQ(stats.failures, 1);
  EXPECT_THAT(std::vector<int64_t>(stats.verified.begin(), stats.verified.begin() + 4), ElementsAre(3, 3, 3, 0));
  EXPECT_THAT(std::vector<int64_t>(stats.accepted.begin(), stats.accepted.begin() + 4), ElementsAre(2, 1, 1, 0));
  EXPECT_NEAR(stats.expected_accepted, 3 * 2.4, 1e-5);
}

size_t drafted_by(const std::vector<std::vector<int32_t>>& drafts) {
  size_t sum = 0;
  for (const auto& draft : drafts) sum += draft.size();
  return sum;
}

// Rows are cheap for a few and dear for many: alone everything is drafted, in a crowd nothing.
CostModel ridge_at(int ridge, double slope = 1.0) {
  std::vector<CostPoint> points;
  for (int rows = 1; rows <= 1024; ++rows)
    points.push_back({rows, 4.0 + 0.01 * rows + slope * std::max(0, rows - ridge)});
  return *CostModel::create(points, {.drafts = {{{.ms = 0.5, .row_ms = 0.01}}}});
}

// From one sequence to 96 and back: who stays drafts again as soon as there is room.
TEST(Speculation, DraftsComeBackAsTheLoadGoes) {
  auto drafter = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.8f, 0.7f, 0.6f});
  drafter->costs = true;
  Speculation speculation({}, {drafter});
  const CostModel cost = ridge_at(12);
  const auto step = [&](int count) {
    const auto drafts = Bench().drafts(speculation, cost, count);
    for (size_t i = 0; i < drafts.size(); ++i) speculation.verified(i + 1, static_cast<int>(drafts[i].size()));
    return drafted_by(drafts);
  };
  for (int i = 0; i < 40; ++i) EXPECT_EQ(step(1), 4u);
  std::vector<size_t> up(97), down(97);
  for (int count = 1; count <= 96; ++count) {
    for (int i = 0; i < 3; ++i) up[static_cast<size_t>(count)] = step(count);
  }
  EXPECT_LT(up[96], 5u);  // a draft now and then, to see
  for (int count = 96; count >= 1; --count) {
    for (int i = 0; i < 3; ++i) down[static_cast<size_t>(count)] = step(count);
    speculation.release(static_cast<uint64_t>(count));
  }
  EXPECT_EQ(down[1], 4u);
  for (size_t count = 1; count <= 4; ++count) EXPECT_GE(down[count], up[count]) << count;
}

// Rows become so dear that nothing is drafted, then cheap again: the next step drafts as before.
TEST(Speculation, ABudgetOfNothingIsOverAtOnceWhenRowsAreCheapAgain) {
  auto drafter = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.8f, 0.7f});
  drafter->costs = true;
  Speculation speculation({}, {drafter});
  const CostModel cheap = ridge_at(100), dear = ridge_at(1, 20.0);
  const auto step = [&](const CostModel& cost) {
    const auto drafts = Bench().drafts(speculation, cost, 2);
    for (size_t i = 0; i < drafts.size(); ++i) speculation.verified(i + 1, static_cast<int>(drafts[i].size()));
    return drafted_by(drafts);
  };
  for (int i = 0; i < 20; ++i) EXPECT_EQ(step(cheap), 6u);
  size_t meanwhile = 0;
  for (int i = 0; i < 200; ++i) meanwhile += step(dear);
  EXPECT_LT(meanwhile, 10u);
  EXPECT_EQ(step(cheap), 6u);
}

TEST(Speculation, AWrongCostModelIsCounted) {
  Speculation speculation({}, {});
  speculation.cost_was_off(2.5);
  EXPECT_EQ(speculation.stats().cost_alarms, 1);
}

TEST(Speculation, WhoHasEndedIsForgotten) {
  auto drafter = std::make_shared<Fixed>(std::vector<float>{0.9f});
  Speculation speculation({}, {drafter});
  Bench().drafts(speculation, cost_of(0.1), 2);
  speculation.release(1);
  speculation.verified(1, 1);  // nobody's
  EXPECT_THAT(drafter->released, ElementsAre(1u));
  EXPECT_EQ(speculation.stats().verifications, 0);
}

// Says for each sequence and step what a table says.
class Scripted final : public Drafter {
 public:
  explicit Scripted(std::function<float(uint64_t sequence)> first) : first_(std::move(first)) {}
  std::string_view name() const override { return "scripted"; }
  int max_tokens() const override { return 4; }
  bool costs_time() const override { return true; }
  void propose(std::span<DraftRequest* const> requests) override {
    for (DraftRequest* request : requests) {
      rows[request->sequence] += request->max_tokens;
      for (float survival = first_(request->sequence); std::ssize(request->draft) < request->max_tokens;) {
        request->draft.push_back({7, survival, std::numeric_limits<float>::quiet_NaN()});
        survival *= first_(request->sequence);
      }
    }
  }
  std::map<uint64_t, int> rows;

 private:
  std::function<float(uint64_t sequence)> first_;
};

// How much is drafted is settled by what was known before the step, and who gets how much of the verification by the
// newest confidences; the total as well.
TEST(Speculation, TheBudgetIsSettledTwice) {
  float good = 0.9f, bad = 0.9f;
  auto drafter = std::make_shared<Scripted>([&](uint64_t sequence) { return sequence == 1 ? good : bad; });
  Speculation speculation({}, {drafter});
  const CostModel cost = cost_of(0.8);
  Bench bench;
  for (int step = 0; step < 12; ++step) bench.drafts(speculation, cost, 2);
  const auto sizes = [&] {
    drafter->rows.clear();
    const auto drafts = bench.drafts(speculation, cost, 2);
    return std::pair(drafts[0].size(), drafts[1].size());
  };
  const auto [one, other] = sizes();
  EXPECT_EQ(one, other);
  EXPECT_GT(one, 0u);
  // Both are believed to be good, so both are drafted for as far as before; the newest confidence of one says no.
  bad = 0.1f;
  const auto [kept, cut] = sizes();
  EXPECT_EQ(drafter->rows[1], drafter->rows[2]);
  EXPECT_GT(drafter->rows[2], 0);
  EXPECT_GE(kept, one);
  EXPECT_EQ(cut, 0u);
  // Once that is known of both, nothing is drafted any more, although the next drafts would be good.
  good = 0.05f, bad = 0.05f;
  for (int step = 0; step < 12; ++step) bench.drafts(speculation, cost, 2);
  good = 0.9f, bad = 0.9f;
  sizes();
  EXPECT_EQ(drafter->rows[1] + drafter->rows[2], 0);
}

TEST(Speculation, EachCostlyDrafterIsTimedApart) {
  auto first = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.8f}),
       second = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.8f, 0.7f}),
       free = std::make_shared<Fixed>(std::vector<float>{0.2f});
  first->costs = second->costs = true;
  Speculation speculation({.fixed = 3}, {first, free, second});
  Bench().drafts(speculation, cost_of(0.1), 4);
  EXPECT_THAT(speculation.draft_rows(), ElementsAre(12, 12)) << "three for each of four, asked of both";
  EXPECT_GT(speculation.draft_ms_each()[0], 0.0);
  EXPECT_GT(speculation.draft_ms_each()[1], 0.0);
  auto next = std::make_shared<Fixed>(std::vector<float>{0.9f, 0.8f, 0.7f, 0.6f});
  next->costs = true;
  EXPECT_EQ(speculation.replace(second, next), 1);
  Bench().drafts(speculation, cost_of(0.1), 4);
  EXPECT_EQ(second->asked.size(), 4u);
  EXPECT_EQ(next->asked.size(), 4u);
}

TEST(Speculation, NobodyIsToldOfPausesThatAreSwitchedOff) {
  auto drafter = std::make_shared<Fixed>(std::vector<float>{0.99f});
  Speculation speculation({.fixed = 1, .pauses = false}, {drafter});
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(Bench().drafts(speculation, cost_of(0.1), 1)[0].size(), 1u);
    speculation.verified(1, 0);
  }
  EXPECT_EQ(speculation.stats().pauses, 0);
  EXPECT_EQ(speculation.stats().failures, 40);
}

}  // namespace
}  // namespace dspark
