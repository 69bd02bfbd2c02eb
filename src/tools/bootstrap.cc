// See bootstrap.h.
#include "tools/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>

#include "base/check.h"

namespace dspark {
namespace {

using Sample = std::vector<const RequestTimes*>;

// What percentiles of a few rounds leave out: rounds that were drawn again spread less than new ones would, and how far
// the drawn ones spread is itself a guess (Student's t against the normal distribution, 97.5 %).
double widening(size_t rounds) {
  constexpr double kStudent[] = {12.71, 12.71, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
  const size_t n = std::max<size_t>(rounds, 2);
  const double student = n < std::size(kStudent) ? kStudent[n] : 2.1;
  return student / 1.96 * std::sqrt(static_cast<double>(n) / static_cast<double>(n - 1));
}

// Wider by that factor, as ratios are compared.
Interval widened(Interval interval, double factor) {
  if (interval.value <= 0.0 || interval.low <= 0.0) return interval;
  interval.low = interval.value * std::pow(std::min(1.0, interval.low / interval.value), factor);
  interval.high = interval.value * std::pow(std::max(1.0, interval.high / interval.value), factor);
  return interval;
}

// These requests of these rounds.
Sample draw(std::span<const Round> rounds, std::span<const size_t> drawn_rounds, std::span<const size_t> requests) {
  Sample out;
  out.reserve(drawn_rounds.size() * requests.size());
  for (const size_t round : drawn_rounds) {
    for (const size_t request : requests) out.push_back(&rounds[round][request]);
  }
  return out;
}

// Every request of every round.
Sample all(std::span<const Round> rounds) {
  Sample out;
  for (const Round& round : rounds) {
    for (const RequestTimes& request : round) out.push_back(&request);
  }
  return out;
}

double at_part(std::vector<double>& values, double part) {
  if (values.empty()) return 0.0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, at);
  return *at;
}

double ratio(double a, double b) { return b > 0.0 ? a / b : 1.0; }

}  // namespace

Interval ratio_interval(std::span<const Round> a, std::span<const Round> b,
                        const std::function<double(std::span<const RequestTimes* const>)>& statistic, int resamples,
                        uint64_t seed) {
  DSPARK_CHECK(!a.empty() && !b.empty() && !a[0].empty(), "an interval of nothing");
  std::mt19937_64 random(seed);
  std::vector<double> ratios;
  const size_t both = std::min(a.size(), b.size());
  std::vector<size_t> rounds(both), requests(a[0].size());
  for (int i = 0; i < resamples; ++i) {
    for (size_t& round : rounds) round = random() % both;
    for (size_t& request : requests) request = random() % requests.size();
    ratios.push_back(ratio(statistic(draw(a, rounds, requests)), statistic(draw(b, rounds, requests))));
  }
  const Interval plain = {ratio(statistic(all(a)), statistic(all(b))), at_part(ratios, 0.025), at_part(ratios, 0.975)};
  return widened(plain, widening(both));
}

Interval ratio_of_means(std::span<const double> a, std::span<const double> b, int resamples, uint64_t seed) {
  DSPARK_CHECK(!a.empty() && !b.empty(), "an interval of nothing");
  std::mt19937_64 random(seed);
  const auto mean = [](std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  };
  const auto drawn_mean = [&](std::span<const double> values) {
    double sum = 0.0;
    for (size_t i = 0; i < values.size(); ++i) sum += values[random() % values.size()];
    return sum / static_cast<double>(values.size());
  };
  std::vector<double> ratios;
  for (int i = 0; i < resamples; ++i) {
    const double of_a = drawn_mean(a);
    ratios.push_back(ratio(of_a, drawn_mean(b)));
  }
  const Interval plain = {ratio(mean(a), mean(b)), at_part(ratios, 0.025), at_part(ratios, 0.975)};
  return widened(plain, widening(std::min(a.size(), b.size())));
}

double mean_whole(std::span<const RequestTimes* const> requests) {
  double sum = 0.0;
  for (const RequestTimes* request : requests) sum += request->whole;
  return sum / static_cast<double>(std::max<size_t>(1, requests.size()));
}

double mean_wait(std::span<const RequestTimes* const> requests) {
  double sum = 0.0;
  for (const RequestTimes* request : requests) sum += request->whole + kFirstWeight * request->first;
  return sum / static_cast<double>(std::max<size_t>(1, requests.size()));
}

std::function<double(std::span<const RequestTimes* const>)> first_percentile(double part) {
  return [part](std::span<const RequestTimes* const> requests) {
    std::vector<double> values;
    for (const RequestTimes* request : requests) values.push_back(request->first);
    return at_part(values, part);
  };
}

std::function<double(std::span<const RequestTimes* const>)> gap_percentile(double part) {
  return [part](std::span<const RequestTimes* const> requests) {
    std::vector<double> values;
    for (const RequestTimes* request : requests)
      values.insert(values.end(), request->gaps.begin(), request->gaps.end());
    return at_part(values, part);
  };
}

}  // namespace dspark
