// The planner with cost tables that are wrong, in a closed loop: it plans by what it believes, a machine of known cost
// runs the plan, and the belief learns. Whatever it began with, its plans become as good as those of one that knows the
// machine. Virtual time; one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "schedule/cost_model.h"
#include "schedule/cut_probe.h"

namespace dspark {
namespace {

constexpr int kSequences = 4, kDrafted = 6, kMostRows = kSequences * (1 + kDrafted);
constexpr int kContext = 100;  // of each sequence, usually

// A machine with stairs of four rows, whose rows look at their contexts.
double truth(const StepShape& shape) {
  return 3.0 + 1.6 * ((shape.rows - 1) / 4) + 0.05 * shape.rows + 2e-4 * static_cast<double>(shape.context);
}

std::vector<CostPoint> profile(const std::function<double(int rows, double ms)>& fault) {
  std::vector<CostPoint> points;
  for (int rows = 1; rows <= kMostRows; ++rows) {
    points.push_back({rows, fault(rows, truth({.rows = rows, .context = int64_t{rows} * kContext}))});
  }
  return points;
}

CostModel model_of(const std::function<double(int rows, double ms)>& fault) {
  return std::move(CostModel::create(profile(fault), {.context_ms = 1e-6})).value();
}

struct Ran {
  double tokens = 0.0, ms = 0.0;
  std::vector<int> steps_of = std::vector<int>(kMostRows + 1);  // by rows
  int most_steps_off = 0;
  double rate() const { return tokens / ms; }
};

// So many steps of four sequences with random survivals. `mood` times what the machine takes; an exact planner knows
// the machine and learns nothing.
Ran run(CostModel& model, int steps, uint32_t seed, double mood = 1.0, int context = kContext, bool exact = false) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> chance(0.3f, 1.0f);
  std::normal_distribution<double> noise(0.0, 0.03);
  CutProbe probe;
  Ran out;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::vector<float>> survivals(kSequences);
    std::vector<DraftedSequence> sequences;
    for (auto& survival : survivals) {
      float product = 1.0f;
      for (int k = 0; k < kDrafted; ++k) survival.push_back(product *= chance(random));
      sequences.push_back({survival, context});
    }
    const VerifyPlan plan = exact ? plan_verification(sequences, {}, model, {}) : probe.plan(sequences, {}, model, {});
    const double ms = mood * truth(plan.shape) * std::exp(noise(random));
    if (!exact) model.observe(plan.shape, ms);
    out.most_steps_off = std::max(out.most_steps_off, model.steps_off());
    ++out.steps_of[static_cast<size_t>(plan.shape.rows)];
    out.tokens += plan.expected_tokens;
    out.ms += ms;
  }
  return out;
}

double best_rate(int context = kContext) {
  std::vector<CostPoint> points;
  for (int rows = 1; rows <= kMostRows; ++rows) points.push_back({rows, truth({.rows = rows})});
  CostModel exact = std::move(CostModel::create(points, {.context_ms = 2e-4})).value();
  return run(exact, 1500, 9, 1.0, context, true).rate();
}

TEST(CostFaults, LookingForFaultsCostsASoundTableNextToNothing) {
  CostModel model = model_of([](int, double ms) { return ms; });
  run(model, 1500, 8);
  EXPECT_GT(run(model, 10000, 9).rate(), 0.985 * best_rate());
}

TEST(CostFaults, AMissingTableIsLearnt) {
  CostModel model;
  run(model, 10000, 1);
  EXPECT_GT(run(model, 1500, 9).rate(), 0.97 * best_rate());
}

TEST(CostFaults, AFlatTableIsCorrected) {
  CostModel model = model_of([](int, double) { return 4.0; });
  run(model, 10000, 2);
  EXPECT_GT(run(model, 1500, 9).rate(), 0.97 * best_rate());
}

TEST(CostFaults, ATableTwiceTooFastIsReportedAndCorrected) {
  CostModel model = model_of([](int, double ms) { return 0.4 * ms; });
  EXPECT_GE(run(model, 20, 3).most_steps_off, 1);
  const Ran after = run(model, 1500, 9);
  EXPECT_GT(after.rate(), 0.97 * best_rate());
  EXPECT_EQ(after.most_steps_off, 0);
}

// The size that the planner would take most often looks three times as dear: it is left alone, and taken again later.
TEST(CostFaults, APoisonedSizeIsRevisited) {
  CostModel sound = model_of([](int, double ms) { return ms; });
  const std::vector<int> steps_of = run(sound, 1500, 9).steps_of;
  const int favourite = static_cast<int>(std::ranges::max_element(steps_of) - steps_of.begin());
  const auto usual = steps_of[static_cast<size_t>(favourite)];
  CostModel model = model_of([&](int rows, double ms) { return rows == favourite ? 3.0 * ms : ms; });
  EXPECT_LT(run(model, 30, 4).steps_of[static_cast<size_t>(favourite)], 10);
  run(model, 14000, 4);
  const Ran after = run(model, 1500, 9);
  EXPECT_GT(after.steps_of[static_cast<size_t>(favourite)], usual / 2);
  EXPECT_GT(after.rate(), 0.97 * best_rate());
}

TEST(CostFaults, ContextsFarBeyondTheProfileAreLearnt) {
  CostModel model = model_of([](int, double ms) { return ms; });
  run(model, 10000, 5, 1.0, 40 * kContext);
  EXPECT_GT(run(model, 1500, 9, 1.0, 40 * kContext).rate(), 0.95 * best_rate(40 * kContext));
}

TEST(CostFaults, AHostThatIsSlowForAMinuteIsReportedAndForgotten) {
  CostModel model = model_of([](int, double ms) { return ms; });
  run(model, 500, 6);
  // A minute of steps that take three times as long; the plans stay those of the machine's shape.
  const Ran slow = run(model, 4000, 9, 3.0);
  EXPECT_GE(slow.most_steps_off, 1);
  EXPECT_GT(3.0 * slow.rate(), 0.95 * best_rate());
  run(model, 30, 7);
  const Ran after = run(model, 1500, 9);
  EXPECT_GT(after.rate(), 0.97 * best_rate());
}

}  // namespace
}  // namespace dspark
