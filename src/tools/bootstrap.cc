// See bootstrap.h.
#include "tools/bootstrap.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/check.h"

namespace dspark {
namespace {

using Sample = std::vector<const RequestTimes*>;

// The requests with these numbers, each from a round of its own.
Sample draw(std::span<const Round> rounds, std::span<const size_t> requests, std::mt19937_64& random) {
  Sample out;
  out.reserve(requests.size());
  for (const size_t request : requests) out.push_back(&rounds[random() % rounds.size()][request]);
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
  std::vector<size_t> requests(a[0].size());
  for (int i = 0; i < resamples; ++i) {
    for (size_t& request : requests) request = random() % requests.size();
    const Sample from_a = draw(a, requests, random), from_b = draw(b, requests, random);
    ratios.push_back(ratio(statistic(from_a), statistic(from_b)));
  }
  Interval out;
  const Sample all_a = all(a), all_b = all(b);
  out.value = ratio(statistic(all_a), statistic(all_b));
  out.low = at_part(ratios, 0.025);
  out.high = at_part(ratios, 0.975);
  return out;
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
  return {ratio(mean(a), mean(b)), at_part(ratios, 0.025), at_part(ratios, 0.975)};
}

double mean_whole(std::span<const RequestTimes* const> requests) {
  double sum = 0.0;
  for (const RequestTimes* request : requests) sum += request->whole;
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
