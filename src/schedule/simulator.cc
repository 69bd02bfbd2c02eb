// See simulator.h.
#include "schedule/simulator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace dspark {
namespace {

// The drafts of one step, the same for every setting.
struct Draft {
  std::vector<float> estimated;  // survival, as the planner sees it
  std::vector<float> exact;
  int accepted = 0;  // of the whole block
};

// Chances of drafted tokens, and what a planner would think of each.
class ChanceSource {
 public:
  ChanceSource(SurvivalModel model, std::span<const SurvivalTrace> traces, const SimOptions& options)
      : model_(model), traces_(traces), options_(options), random_(options.seed) {
    if (model == SurvivalModel::kTraces) rescale();
  }

  Draft next() {
    Draft draft;
    const SurvivalTrace* trace = nullptr;
    if (model_ == SurvivalModel::kTraces) trace = &traces_[random_() % traces_.size()];
    float estimated = 1.0f, exact = 1.0f;
    bool alive = true;
    for (int k = 0; k < options_.block; ++k) {
      const double chance = trace == nullptr                      ? draw()
                            : k < static_cast<int>(trace->size()) ? shifted((*trace)[k])
                                                                  : 0.0;
      exact *= static_cast<float>(chance);
      estimated *= static_cast<float>(guess(chance));
      draft.exact.push_back(exact);
      draft.estimated.push_back(estimated);
      alive = alive && uniform() < chance;
      draft.accepted += alive ? 1 : 0;
    }
    return draft;
  }

 private:
  double uniform() { return std::uniform_real_distribution<double>()(random_); }

  double draw() {
    if (model_ == SurvivalModel::kIndependent) return options_.acceptance;
    const double a = std::gamma_distribution<double>(options_.acceptance * options_.spread)(random_);
    const double b = std::gamma_distribution<double>((1.0 - options_.acceptance) * options_.spread)(random_);
    return a + b > 0.0 ? a / (a + b) : options_.acceptance;
  }

  // The expected chance after `tosses` tosses of it: calibrated by Bayes' rule.
  double guess(double chance) {
    if (model_ == SurvivalModel::kIndependent) return chance;
    int heads = 0;
    for (int i = 0; i < options_.tosses; ++i) heads += uniform() < chance ? 1 : 0;
    if (model_ == SurvivalModel::kTraces) return guesses_[static_cast<size_t>(heads)];
    return (options_.acceptance * options_.spread + heads) / (options_.spread + options_.tosses);
  }

  double shifted(float chance) const {
    const double odds = static_cast<double>(chance) / (1.0 - static_cast<double>(chance)) * std::exp(shift_);
    return odds / (1.0 + odds);
  }

  double mean_shifted() const {
    double sum = 0.0;
    int count = 0;
    for (const SurvivalTrace& trace : traces_) {
      for (int k = 0; k < options_.block && k < static_cast<int>(trace.size()); ++k, ++count) {
        sum += shifted(trace[static_cast<size_t>(k)]);
      }
    }
    return sum / count;
  }

  // Moves the log-odds of all recorded chances by one number, so that their mean is the acceptance asked for.
  void rescale() {
    double low = -20.0, high = 20.0;
    for (int i = 0; i < 60; ++i) {
      shift_ = (low + high) / 2;
      (mean_shifted() < options_.acceptance ? low : high) = shift_;
    }
    const int tosses = options_.tosses;
    std::vector<double> weight(static_cast<size_t>(tosses) + 1, 0.0), weighted = weight;
    for (const SurvivalTrace& trace : traces_) {
      for (int k = 0; k < options_.block && k < static_cast<int>(trace.size()); ++k) {
        const double p = shifted(trace[static_cast<size_t>(k)]);
        for (int heads = 0; heads <= tosses; ++heads) {
          const double chance =
              std::exp(std::lgamma(tosses + 1.0) - std::lgamma(heads + 1.0) - std::lgamma(tosses - heads + 1.0)) *
              std::pow(p, heads) * std::pow(1.0 - p, tosses - heads);
          weight[static_cast<size_t>(heads)] += chance;
          weighted[static_cast<size_t>(heads)] += chance * p;
        }
      }
    }
    for (size_t i = 0; i < weight.size(); ++i) guesses_.push_back(weight[i] > 0.0 ? weighted[i] / weight[i] : 0.0);
  }

  SurvivalModel model_;
  std::span<const SurvivalTrace> traces_;
  const SimOptions& options_;
  std::mt19937_64 random_;
  double shift_ = 0.0;
  std::vector<double> guesses_;  // by heads
};

// The clock of one setting.
struct Lane {
  double ms = 0.0;
  int64_t tokens = 0;
  int64_t verified = 0;

  void step(const CostCurve& curve, const std::vector<int>& depths, std::span<const Draft> drafts) {
    int rows = static_cast<int>(depths.size());
    for (size_t i = 0; i < depths.size(); ++i) {
      rows += depths[i];
      verified += depths[i];
      tokens += 1 + std::min(depths[i], drafts[i].accepted);
    }
    ms += curve.ms(rows);
  }

  SimResult result(int sequences, int steps) const {
    const double each = static_cast<double>(sequences) * steps;
    const double per_second = static_cast<double>(tokens) / ms * 1e3;
    return {per_second, per_second / sequences, static_cast<double>(tokens) / each,
            static_cast<double>(verified) / each};
  }
};

Status check(const CostCurve& curve, int sequences, SurvivalModel survival, std::span<const SurvivalTrace> traces,
             const SimOptions& options) {
  auto bad = [](const char* what, auto value, const char* expected) {
    return make_error(ErrorCode::kInvalidArgument, "{} {}, expected {}", what, value, expected);
  };
  if (curve.points.size() < 2) return bad("points of the cost curve:", curve.points.size(), "at least 2");
  if (sequences < 1 || sequences > 4096) return bad("sequences", sequences, "1 to 4096");
  if (!(options.acceptance > 0.0 && options.acceptance < 1.0)) {
    return bad("acceptance", options.acceptance, "between 0 and 1");
  }
  if (options.block < 1 || options.block > 64) return bad("block", options.block, "1 to 64");
  if (options.steps < 1) return bad("steps", options.steps, "at least 1");
  if (!(options.spread > 0.0)) return bad("spread", options.spread, "above 0");
  if (options.tosses < 0 || options.tosses > 1000) return bad("tosses", options.tosses, "0 to 1000");
  if (survival == SurvivalModel::kTraces) {
    size_t chances = 0;
    for (const SurvivalTrace& trace : traces) {
      for (float chance : trace) {
        if (!(chance > 0.0f && chance < 1.0f)) return bad("a recorded chance of", chance, "between 0 and 1");
      }
      chances += trace.size();
    }
    if (chances == 0) return bad("recorded chances:", chances, "some");
  }
  return Ok{};
}

}  // namespace

double CostCurve::ms(int rows) const {
  size_t right = 1;
  while (right + 1 < points.size() && points[right].rows < rows) ++right;
  const CostPoint &a = points[right - 1], &b = points[right];
  return a.ms + (b.ms - a.ms) * (rows - a.rows) / (b.rows - a.rows);
}

CostCurve deepinfer_curve() {
  constexpr double kAcceptance = 0.75;
  constexpr int kDrafted = 5;
  constexpr std::array<std::pair<int, double>, 3> kTable = {{{16, 4891.0}, {60, 13730.0}, {96, 16817.0}}};
  double tokens = 1.0, survival = 1.0;
  for (int k = 0; k < kDrafted; ++k) tokens += survival *= kAcceptance;
  CostCurve curve = {"deepinfer", {}};
  for (const auto& [sequences, per_second] : kTable) {
    curve.points.push_back({sequences * (1 + kDrafted), sequences * tokens / per_second * 1e3});
  }
  return curve;
}

const char* survival_model_name(SurvivalModel model) {
  constexpr const char* kNames[] = {"independent", "spread", "traces"};
  return kNames[static_cast<size_t>(model)];
}

Result<SimPoint> simulate(const CostCurve& curve, int sequences, SurvivalModel survival,
                          std::span<const SurvivalTrace> traces, const SimOptions& options) {
  DSPARK_RETURN_IF_ERROR(check(curve, sequences, survival, traces, options));
  std::vector<CostPoint> profile;
  const int most_rows = sequences * (1 + options.block);
  for (int rows = 1; rows <= most_rows; ++rows) profile.push_back({rows, curve.ms(rows)});
  DSPARK_TRY(CostModel cost, CostModel::create(profile, {}));
  const CostModel known = cost;
  ChanceSource source(survival, traces, options);
  const std::vector<int> none(static_cast<size_t>(sequences), 0), whole(none.size(), options.block);
  Lane off, fixed, planned, oracle;
  std::vector<Draft> drafts(none.size());
  std::vector<DraftedSequence> estimated(none.size()), exact(none.size());
  for (int step = 0; step < options.steps; ++step) {
    for (size_t i = 0; i < drafts.size(); ++i) {
      drafts[i] = source.next();
      estimated[i].survival = drafts[i].estimated;
      exact[i].survival = drafts[i].exact;
    }
    const VerifyPlan plan = plan_verification(estimated, {}, cost, {});
    const double before = planned.ms;
    planned.step(curve, plan.depths, drafts);
    cost.observe({.rows = sequences + plan.budget}, planned.ms - before);
    oracle.step(curve, plan_verification(exact, {}, known, {}).depths, drafts);
    fixed.step(curve, whole, drafts);
    off.step(curve, none, drafts);
  }
  SimPoint point;
  point.sequences = sequences;
  point.survival = survival;
  point.off = off.result(sequences, options.steps);
  point.fixed = fixed.result(sequences, options.steps);
  point.planned = planned.result(sequences, options.steps);
  point.oracle = oracle.result(sequences, options.steps);
  return point;
}

}  // namespace dspark
