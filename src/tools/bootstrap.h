// How sure a difference between two settings is: bootstrap confidence intervals of ratios over paired requests. Pure;
// the draws come from a seed, so that the same numbers give the same interval.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace dspark {

struct Interval {
  double value = 1.0;  // of the data themselves
  double low = 1.0, high = 1.0;
  bool below(double x) const { return high < x; }
  bool above(double x) const { return low > x; }
};

// What one request took in one round of one setting.
struct RequestTimes {
  double first = 0.0;        // seconds to the first token
  double whole = 0.0;        // seconds to the last
  std::vector<double> gaps;  // seconds between tokens
};
using Round = std::vector<RequestTimes>;  // by request, the same ones in every round

// statistic(a) / statistic(b) with a 95 % interval: rounds are drawn again with replacement, the same ones for both as
// they were measured in pairs, and requests within them; what so few rounds understate is made up for. Both have at
// least one round of the same requests.
Interval ratio_interval(std::span<const Round> a, std::span<const Round> b,
                        const std::function<double(std::span<const RequestTimes* const>)>& statistic,
                        int resamples = 400, uint64_t seed = 1);

// mean(a) / mean(b) of one number a round, with rounds of each drawn again.
Interval ratio_of_means(std::span<const double> a, std::span<const double> b, int resamples = 400, uint64_t seed = 1);

// Statistics of requests.
double mean_whole(std::span<const RequestTimes* const> requests);
// Seconds that a user waits, on average: for the whole answer, and kFirstWeight times more for its first token, before
// which there is nothing to read. Without the latter the best way to serve a crowd would be one after the other.
inline constexpr double kFirstWeight = 2.0;
double mean_wait(std::span<const RequestTimes* const> requests);
std::function<double(std::span<const RequestTimes* const>)> first_percentile(double part);
std::function<double(std::span<const RequestTimes* const>)> gap_percentile(double part);

}  // namespace dspark
