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
constexpr double kGuessed = 0.7;      // of a size between or beyond those
constexpr double kSurest = 0.02;      // that a size can be
constexpr double kBesides = 0.15;     // of a size from what its neighbours say
constexpr double kMoodDrift = 0.04;   // of the mood from step to step
constexpr double kTerm = 0.3;         // of the terms beyond the rows
constexpr double kSettleSteps = 500;  // a size unseen for so long is as unsure as its neighbours' word for it
constexpr double kOutlier = 3.0;      // surprises beyond so many deviations count as that many

constexpr double kGuessedRowShare = 0.1;

}  // namespace

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
  for (int i = 0; i < kSizes; ++i) {
    sizes_[static_cast<size_t>(i)] = {std::log(1.0 + kGuessedRowShare * (size_rows(i) - 1)), square(kGuessed)};
  }
  mood_ = {0.0, square(kGuessed)};
  for (Belief* term : {&context_, &draft_, &experts_}) *term = {0.0, square(kTerm)};
  refresh();
}

Result<CostModel> CostModel::create(std::span<const CostPoint> profile, const CostTerms& terms) {
  if (profile.empty()) return make_error(ErrorCode::kInvalidArgument, "a cost profile without points, expected some");
  std::vector<CostPoint> points(profile.begin(), profile.end());
  for (const CostPoint& point : points) {
    if (point.rows < 1 || !std::isfinite(point.ms) || point.ms <= 0.0) {
      return make_error(ErrorCode::kInvalidArgument, "a cost of {} ms for {} rows, expected both above 0", point.ms,
                        point.rows);
    }
  }
  std::sort(points.begin(), points.end(), [](const CostPoint& a, const CostPoint& b) { return a.rows < b.rows; });
  CostModel model;
  model.terms_ = terms;
  model.mood_.variance = square(kMoodDrift);
  for (int i = 0; i < kSizes; ++i) {
    const int rows = size_rows(i);
    const auto after = std::lower_bound(points.begin(), points.end(), rows,
                                        [](const CostPoint& point, int value) { return point.rows < value; });
    Belief& belief = model.sizes_[static_cast<size_t>(i)];
    belief.variance = square(kGuessed);
    double ms = 0.0;
    if (after == points.end()) {
      ms = points.back().ms * rows / points.back().rows;  // in proportion: never too cheap
    } else if (after->rows == rows || after == points.begin()) {
      ms = after->ms;
    } else {
      const CostPoint& before = after[-1];
      const double part = static_cast<double>(rows - before.rows) / (after->rows - before.rows);
      ms = before.ms + part * (after->ms - before.ms);
    }
    if (after != points.end() && after->rows == rows) belief.variance = square(kProfiled);
    belief.mean = std::log(ms);
  }
  model.refresh();
  return model;
}

// A size that has not been seen for long is believed less and its neighbours more: a time that was measured wrong once
// and has kept the planner away since fades, until the planner tries it again.
double CostModel::relaxed(int index) const {
  const auto at = [&](int i) { return sizes_[static_cast<size_t>(i)]; };
  const Belief& own = at(index);
  if (index == 0 || index == kSizes - 1) return own.mean;
  const double left = std::exp(at(index - 1).mean), right = std::exp(at(index + 1).mean);
  const double part =
      static_cast<double>(size_rows(index) - size_rows(index - 1)) / (size_rows(index + 1) - size_rows(index - 1));
  const double besides = std::log(left + part * (right - left));
  const double besides_variance =
      square(kBesides) + (1.0 - part) * at(index - 1).variance + part * at(index + 1).variance;
  return (own.mean * besides_variance + besides * own.variance) / (own.variance + besides_variance);
}

// Pools neighbours that violate the order (pool adjacent violators: Ayer et al., 1955).
void CostModel::refresh() {
  struct Pool {
    double sum;
    int count;
    double mean() const { return sum / count; }
  };
  std::array<Pool, kSizes> pools;
  size_t used = 0;
  for (int i = 0; i < kSizes; ++i) {
    pools[used++] = {relaxed(i), 1};
    while (used > 1 && pools[used - 2].mean() > pools[used - 1].mean()) {
      pools[used - 2].sum += pools[used - 1].sum;
      pools[used - 2].count += pools[used - 1].count;
      --used;
    }
  }
  size_t size = 0;
  for (size_t p = 0; p < used; ++p) {
    const double ms = std::exp(pools[p].mean());
    for (int i = 0; i < pools[p].count; ++i) table_[size++] = ms;
  }
}

double CostModel::sized_ms(int rows) const {
  const int index = size_index(rows);
  const double here = table_[static_cast<size_t>(index)];
  const int here_rows = size_rows(index);
  if (rows <= here_rows) return here;
  if (index == kSizes - 1) return here * rows / here_rows;
  const double next = table_[static_cast<size_t>(index + 1)];
  return here + (next - here) * (rows - here_rows) / (size_rows(index + 1) - here_rows);
}

double CostModel::context_part(const StepShape& shape) const {
  return terms_.context_ms * static_cast<double>(shape.context) * std::exp(context_.mean);
}

double CostModel::draft_part(const StepShape& shape) const {
  if (shape.draft_rows == 0) return 0.0;
  return (terms_.draft_ms + terms_.draft_row_ms * shape.draft_rows) * std::exp(draft_.mean);
}

double CostModel::expert_part(const StepShape& shape) const {
  return terms_.expert_ms * shape.experts * std::exp(experts_.mean);
}

double CostModel::mood() const { return std::exp(mood_.mean); }

double CostModel::ms(const StepShape& shape) const {
  const double rows = shape.rows == 0 ? 0.0 : sized_ms(shape.rows);
  return mood() * (rows + context_part(shape) + draft_part(shape) + expert_part(shape));
}

void CostModel::observe(const StepShape& shape, double actual_ms) {
  if (shape.rows == 0 || !std::isfinite(actual_ms) || actual_ms <= 0.0) return;
  const double expected_ms = ms(shape);
  const double surprise = std::log(actual_ms / expected_ms);
  steps_off_ = std::abs(surprise) > std::log(2.0) ? steps_off_ + 1 : 0;

  const double usual_ms = expected_ms / mood();
  Belief& size = sizes_[static_cast<size_t>(size_index(shape.rows))];
  const std::array<std::pair<Belief*, double>, 5> parts = {{{&mood_, 1.0},
                                                            {&size, sized_ms(shape.rows) / usual_ms},
                                                            {&context_, context_part(shape) / usual_ms},
                                                            {&draft_, draft_part(shape) / usual_ms},
                                                            {&experts_, expert_part(shape) / usual_ms}}};
  double variance = square(kNoise);
  for (const auto& [belief, share] : parts) variance += square(share) * belief->variance;
  const double most = kOutlier * std::sqrt(variance);
  const bool outlier = std::abs(surprise) > most;
  const double heard = std::clamp(surprise, -most, most);
  for (const auto& [belief, share] : parts) {
    const double gain = share * belief->variance / variance;
    belief->mean += gain * heard;
    // An outlier may be the first sign that all is different: nothing becomes surer by it.
    if (!outlier) belief->variance = std::max(square(kSurest), belief->variance * (1.0 - gain * share));
  }
  mood_.variance = std::min(square(kGuessed), mood_.variance + square(kMoodDrift));
  for (Belief& other : sizes_) {
    if (&other != &size) other.variance = std::min(square(kGuessed), other.variance + square(kBesides) / kSettleSteps);
  }
  refresh();
}

}  // namespace dspark
