// See row_cost.h.
#include "schedule/row_cost.h"

#include <algorithm>
#include <bit>

namespace dspark {
namespace {

constexpr double kMemory = 0.9;       // of a mean at each observation, once it has settled
constexpr double kLargestJump = 3.0;  // what is slower than so many times the mean counts as that

}  // namespace

void RowCost::observe(int rows, double ms) {
  if (rows <= 0 || !(ms > 0.0)) return;
  const size_t index = static_cast<size_t>(std::bit_width(static_cast<unsigned>(rows)) - 1);
  Bucket& bucket = buckets_[std::min(index, buckets_.size() - 1)];
  // The first few observations weigh alike, so that the very first, with cold caches, does not linger.
  const double memory = std::min(kMemory, static_cast<double>(bucket.seen) / (bucket.seen + 1.0));
  const double counted = bucket.seen == 0 ? ms : std::min(ms, kLargestJump * bucket.ms);
  bucket.rows = memory * bucket.rows + (1.0 - memory) * rows;
  bucket.ms = memory * bucket.ms + (1.0 - memory) * counted;
  bucket.seen = std::min(bucket.seen + 1, 1000);
}

bool RowCost::known() const {
  return std::any_of(buckets_.begin(), buckets_.end(), [](const Bucket& bucket) { return bucket.seen > 0; });
}

double RowCost::ms(int rows) const {
  double low_rows = 0.0, low_ms = 0.0, highest = 0.0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.seen == 0) continue;
    highest = std::max(highest, bucket.ms);  // more rows never cost less, whatever was measured
    if (rows <= bucket.rows) {
      if (low_rows == 0.0) return highest;  // fewer rows than ever: not cheaper, as every step reads all weights
      return low_ms + (highest - low_ms) * (rows - low_rows) / (bucket.rows - low_rows);
    }
    low_rows = bucket.rows;
    low_ms = highest;
  }
  return low_rows == 0.0 ? 0.0 : low_ms * rows / low_rows;
}

}  // namespace dspark
