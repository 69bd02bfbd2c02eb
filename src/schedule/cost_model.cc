// See cost_model.h. A diagonal Kalman filter in logarithms: each step's surprise is shared among the beliefs that its
// time is made of, by how unsure they are.
#include "schedule/cost_model.h"

#include <algorithm>
#include <cmath>

namespace dspark {
namespace {

double square(double x) { return x * x; }

// Standard deviations, of logarithms.
constexpr double kNoise = 0.08;       // of one step
constexpr double kProfiled = 0.05;    // of a size in the profile
constexpr double kGuessed = 0.7;      // of a size that was not in it, and at most
constexpr double kSurest = 0.03;      // that a size can be
constexpr double kBesides = 0.15;     // of a size from what its neighbours say
constexpr double kMoodDrift = 0.04;   // of the mood from step to step
constexpr double kTerm = 0.3;         // of the terms beyond the rows
constexpr double kSettleSteps = 500;  // a size unseen for so long is as unsure as its neighbours' word for it
constexpr double kOutlier = 3.0;      // surprises beyond so many deviations count as that many

constexpr double kGuessedContextShare = 3e-4;  // a position looked at to the first row, without a profile
constexpr double kGuessedRowShare = 0.1;       // a further row's cost to the first one's, without a profile
constexpr double kGuessedDraftShare = 0.05, kGuessedDraftRowShare = 0.01;  // of drafting, to the first row
constexpr double kGuessedDrawShare = 0.005;                                // of a draw, to the first row
constexpr double kDoubt = 2.0;  // an outlier multiplies the variance of what it speaks about

// The nearest non-decreasing sequence, in logarithms.
void pool_violators(std::span<double> values) {
  if (std::ranges::is_sorted(values)) return;
  struct Pool {
    double mean;  // geometric
    int count;
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& pool = pools.back();
      const double sum = pool.count * std::log(pool.mean) + last.count * std::log(last.mean);
      pool.count += last.count;
      pool.mean = std::exp(sum / pool.count);
    }
  }
  size_t at = 0;
  for (const Pool& pool : pools) {
    for (int i = 0; i < pool.count; ++i) values[at++] = pool.mean;
  }
}

}  // namespace

CostModel::Belief CostModel::Belief::of_ms(double ms, double variance) { return {std::log(ms), variance, true, ms}; }

void CostModel::Belief::set(double new_mean) {
  mean = new_mean;
  factor = std::exp(new_mean);
}

int CostModel::size_rows(int index) {
  if (index < kSingles) return index + 1;
  index -= kSingles - 1;
  if (index <= kByEight) return kSingles + 8 * index;
  return kSingles + 8 * kByEight + 64 * (index - kByEight);
}

int CostModel::size_index(int rows) {
  if (rows <= kSingles) return std::max(rows, 1) - 1;
  const int eights = (rows - kSingles) / 8;
  if (eights <= kByEight) return kSingles - 1 + eights;
  return std::min(kSizes - 1, kSingles - 1 + kByEight + (rows - kSingles - 8 * kByEight) / 64);
}

CostModel::CostModel() {
  for (int i : {0, kSizes - 1}) {
    const double ms = 1.0 + kGuessedRowShare * (size_rows(i) - 1);
    sizes_[static_cast<size_t>(i)] = Belief::of_ms(ms, square(kGuessed));
  }
  mood_ = {0.0, square(kGuessed)};
  terms_ = {.context_ms = kGuessedContextShare, .draw_ms = kGuessedDrawShare};
  terms_.drafts.fill({.ms = kGuessedDraftShare, .row_ms = kGuessedDraftRowShare});
  for (Belief* term : {&context_, &experts_, &draws_}) *term = {0.0, square(kTerm)};
  drafts_.fill({0.0, square(kTerm)});
  refresh();
}

Result<CostModel> CostModel::create(std::span<const CostPoint> profile, const CostTerms& terms) {
  if (profile.empty()) return make_error(ErrorCode::kInvalidArgument, "a cost profile without points, expected some");
  CostModel model;
  model.sizes_ = {};
  model.known_ = true;
  model.terms_ = terms;
  model.mood_.variance = square(kMoodDrift);
  for (const CostPoint& point : profile) {
    if (point.rows < 1 || !std::isfinite(point.ms) || point.ms <= 0.0) {
      return make_error(ErrorCode::kInvalidArgument, "a cost of {} ms for {} rows, expected both above 0", point.ms,
                        point.rows);
    }
    const int index = size_index(point.rows);
    if (size_rows(index) != point.rows && point.rows < size_rows(kSizes - 1)) continue;  // no size of its own
    const double ms = point.ms * size_rows(index) / point.rows;
    model.sizes_[static_cast<size_t>(index)] = Belief::of_ms(ms, square(kProfiled));
  }
  if (std::none_of(model.sizes_.begin(), model.sizes_.end(), [](const Belief& size) { return size.known; })) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a cost profile of {} points without a number of rows that is kept "
                      "apart, expected 1 to {}, or a multiple of 8",
                      profile.size(), kSingles);
  }
  model.refresh();
  return model;
}

// Between known sizes on the line between them, below the first like it, beyond the last in proportion to the rows.
void CostModel::interpolate_unknown(std::span<const int> known) {
  const auto ms = [&](int i) -> double& { return table_[static_cast<size_t>(i)]; };
  for (int i = 0; i < known.front(); ++i) ms(i) = ms(known.front());
  for (size_t k = 0; k + 1 < known.size(); ++k) {
    const int left = known[k], right = known[k + 1];
    for (int i = left + 1; i < right; ++i) {
      const double part = static_cast<double>(size_rows(i) - size_rows(left)) / (size_rows(right) - size_rows(left));
      ms(i) = ms(left) + part * (ms(right) - ms(left));
    }
  }
  for (int i = known.back() + 1; i < kSizes; ++i) {
    ms(i) = ms(known.back()) * size_rows(i) / size_rows(known.back());
  }
}

// The table from the beliefs. A size that is dearer than its neighbours say and has not been seen for long is believed
// less and they are more: a time that was measured wrong once and has kept the planner away since fades, until the
// planner tries it again. Then
// neighbours that violate the order are pooled (pool adjacent violators: Ayer et al., 1955).
void CostModel::refresh() {
  std::vector<int> known;
  for (int i = 0; i < kSizes; ++i) {
    if (sizes_[static_cast<size_t>(i)].known) known.push_back(i);
  }
  const auto ms = [&](size_t k) -> double& { return table_[static_cast<size_t>(known[k])]; };
  const auto belief = [&](size_t k) -> const Belief& { return sizes_[static_cast<size_t>(known[k])]; };
  for (size_t k = 0; k < known.size(); ++k) ms(k) = belief(k).factor;
  double left = ms(0);  // as believed, before it was mended
  for (size_t k = 1; k + 1 < known.size(); ++k) {
    const double here = ms(k), right = ms(k + 1);
    const double part = static_cast<double>(size_rows(known[k]) - size_rows(known[k - 1])) /
                        (size_rows(known[k + 1]) - size_rows(known[k - 1]));
    const double besides = left + part * (right - left);
    if (here > besides) {
      const double variance = square(kBesides), trust = belief(k).variance;
      ms(k) = std::exp((belief(k).mean * variance + std::log(besides) * trust) / (trust + variance));
    }
    left = here;
  }
  interpolate_unknown(known);
  pool_violators(table_);
}

double CostModel::sized_ms(int rows) const {
  const int index = size_index(rows);
  const double here = table_[static_cast<size_t>(index)];
  const int here_rows = size_rows(index);
  if (rows <= here_rows) return here;
  if (index == kSizes - 1) return here * rows / here_rows;
  const double next = table_[static_cast<size_t>(index) + 1];
  return here + (next - here) * (rows - here_rows) / (size_rows(index + 1) - here_rows);
}

double CostModel::context_part(const StepShape& shape) const {
  return terms_.context_ms * static_cast<double>(shape.context) * context_.factor;
}

double CostModel::draft_part(int drafter, int rows) const {
  if (rows == 0) return 0.0;
  const DraftCost& cost = terms_.drafts[static_cast<size_t>(drafter)];
  return (cost.ms + cost.row_ms * rows) * drafts_[static_cast<size_t>(drafter)].factor;
}

double CostModel::drafts_part(const DraftRows& rows) const {
  double ms = 0.0;
  for (int drafter = 0; drafter < kCostlyDrafters; ++drafter) {
    ms += draft_part(drafter, rows[static_cast<size_t>(drafter)]);
  }
  return ms;
}

double CostModel::expert_part(const StepShape& shape) const {
  return terms_.expert_ms * shape.experts * experts_.factor;
}

double CostModel::draw_part(const StepShape& shape) const { return terms_.draw_ms * shape.draws * draws_.factor; }

double CostModel::mood() const { return mood_.factor; }

double CostModel::ms(const StepShape& shape) const {
  const double rows = shape.rows == 0 ? 0.0 : sized_ms(shape.rows);
  return mood() * (rows + context_part(shape) + drafts_part(shape.draft_rows) + expert_part(shape) + draw_part(shape));
}

// One term alone, by what it took; in the host's mood, which its time says nothing about.
void CostModel::correct(Belief& term, double expected_ms, double actual_ms) {
  const double variance = square(kNoise) + term.variance;
  const double most = kOutlier * std::sqrt(variance);
  const double surprise = std::log(actual_ms / (mood() * expected_ms));
  const double gain = term.variance / variance;
  term.set(term.mean + gain * std::clamp(surprise, -most, most));
  const bool outlier = std::abs(surprise) > most;
  // Never quite sure: what it speaks of may change, as the sampling parameters of requests do.
  term.variance =
      std::clamp(outlier ? kDoubt * term.variance : (1.0 - gain) * term.variance, square(kSurest), square(kGuessed));
}

void CostModel::observe_draft(int drafter, int rows, double actual_ms) {
  if (rows <= 0 || !std::isfinite(actual_ms) || actual_ms <= 0.0) return;
  DraftCost& cost = terms_.drafts[static_cast<size_t>(drafter)];
  if (cost.ms + cost.row_ms <= 0.0) cost.row_ms = actual_ms / (mood() * rows);
  correct(drafts_[static_cast<size_t>(drafter)], draft_part(drafter, rows), actual_ms);
}

void CostModel::doubt_draft(int drafter) { drafts_[static_cast<size_t>(drafter)].variance = square(kGuessed); }

void CostModel::observe_draws(int draws, double actual_ms) {
  if (draws <= 0 || !std::isfinite(actual_ms) || actual_ms <= 0.0) return;
  if (terms_.draw_ms <= 0.0) terms_.draw_ms = actual_ms / (mood() * draws);
  correct(draws_, draw_part({.draws = draws}), actual_ms);
}

void CostModel::observe(const StepShape& shape, double actual_ms) {
  if (shape.rows == 0 || !std::isfinite(actual_ms) || actual_ms <= 0.0) return;
  known_ = true;
  const double expected_ms = ms(shape);
  const double surprise = std::log(actual_ms / expected_ms);
  steps_off_ = std::abs(surprise) > std::log(2.0) ? steps_off_ + 1 : 0;

  const double usual_ms = expected_ms / mood();
  const size_t index = static_cast<size_t>(size_index(shape.rows));
  Belief& size = sizes_[index];
  if (!size.known) size = Belief::of_ms(table_[index], square(kGuessed));
  std::array<std::pair<Belief*, double>, 4 + kCostlyDrafters> parts = {{{&mood_, 1.0},
                                                                        {&size, sized_ms(shape.rows) / usual_ms},
                                                                        {&context_, context_part(shape) / usual_ms},
                                                                        {&experts_, expert_part(shape) / usual_ms}}};
  for (int drafter = 0; drafter < kCostlyDrafters; ++drafter) {
    const auto i = static_cast<size_t>(drafter);
    parts[4 + i] = {&drafts_[i], draft_part(drafter, shape.draft_rows[i]) / usual_ms};
  }
  double variance = square(kNoise);
  for (const auto& [belief, share] : parts) variance += square(share) * belief->variance;
  const double most = kOutlier * std::sqrt(variance);
  const bool outlier = std::abs(surprise) > most;
  const double heard = std::clamp(surprise, -most, most);
  for (const auto& [belief, share] : parts) {
    const double gain = share * belief->variance / variance;
    belief->set(belief->mean + gain * heard);
    // An outlier may be the first sign that all is different: what it speaks about becomes less sure.
    belief->variance *= outlier ? 1.0 + share * (kDoubt - 1.0) : 1.0 - gain * share;
    belief->variance = std::clamp(belief->variance, square(kSurest), square(kGuessed));
  }
  mood_.variance = std::min(square(kGuessed), mood_.variance + square(kMoodDrift));
  for (Belief& other : sizes_) {
    if (&other != &size && other.known)
      other.variance = std::min(square(kGuessed), other.variance + square(kBesides) / kSettleSteps);
  }
  refresh();
}

}  // namespace dspark
