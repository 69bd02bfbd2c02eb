// OnlineCorrection: what serving teaches about calibrated chances, by task bucket and position in the draft: the odds
// of a chance are multiplied by the odds of what happened over those of what was expected. One owner at a time.
#pragma once

#include <array>

#include "draft/dspark_config.h"

namespace dspark {

class OnlineCorrection {
 public:
  static constexpr int kBuckets = 8;

  // A token with this chance (not corrected) was taken, given those before it, or not.
  void observe(int bucket, int position, double chance, bool taken);
  // The chance itself before anything was observed.
  double corrected(int bucket, int position, double chance) const;

 private:
  struct Sums {
    double tried = 0.0, expected = 0.0, taken = 0.0;  // fading
  };
  static size_t index(int bucket, int position);

  std::array<Sums, size_t{kBuckets}* kMaxDraftSlots> sums_ = {};
};

}  // namespace dspark
