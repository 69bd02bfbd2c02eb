// What serving teaches about calibrated chances. OnlineCorrection: by task bucket and position in the draft, where the
// odds of a chance are multiplied by the odds of what happened over those of what was expected. SequenceCorrection: by
// answer, as one text is easier to foresee than another of its kind. One owner at a time.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

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

// A shift of the log-odds for each sequence, moved by every surprise: logistic regression on a constant, by stochastic
// gradient.
class SequenceCorrection {
 public:
  // A token with this chance (corrected) was taken, given those before it, or not.
  void observe(uint64_t sequence, double chance, bool taken);
  // The chance itself before anything of the sequence was observed.
  double corrected(uint64_t sequence, double chance) const;
  void release(uint64_t sequence) { shifts_.erase(sequence); }

 private:
  std::unordered_map<uint64_t, double> shifts_;
};

}  // namespace dspark
