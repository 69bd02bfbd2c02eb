// The median of measurements. Any thread.
#pragma once

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace dspark {

// Of an even number of values the mean of the two in the middle; at least one value.
inline double median(std::vector<double> values) {
  DSPARK_CHECK(!values.empty(), "the median of nothing");
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

}  // namespace dspark
