// TokenHistory: which tokens a sequence holds and how often, as far as penalties need it. One owner, the engine's step
// thread; many threads may read it while nobody appends.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling_params.h"

namespace dspark {

class TokenHistory {
 public:
  // Where a token stands: in the newest `repetition_window` tokens of prompt and output, and in the output.
  struct Counts {
    int64_t in_window = 0;
    int64_t in_output = 0;
  };
  struct Entry {
    int32_t token;
    Counts counts;
  };

  // Counts nothing but the output's length where `params` has no penalty.
  TokenHistory(const SamplingParams& params, std::span<const int32_t> prompt);

  // A token of the output. Amortised constant time.
  void append(int32_t token);

  int64_t output_size() const { return output_size_; }

  // Tokens that stand or stood in the window or the output, each once. Empty without a penalty.
  std::span<const Entry> entries() const { return entries_; }

  // The counts of `token` as if `drafted` stood behind the history. Linear in the length of `drafted`.
  Counts counts(int32_t token, std::span<const int32_t> drafted = {}) const;

  // The `count` oldest tokens of the window: those that leave it when as many are appended.
  std::span<const int32_t> leaving(int64_t count) const;

 private:
  Entry& entry(int32_t token);
  const Entry* find(int32_t token) const;
  size_t slot(int32_t token) const;
  void grow();
  void enter_window(int32_t token);

  bool counted_;
  int64_t window_;
  int64_t output_size_ = 0;
  std::vector<int32_t> tokens_;  // of prompt and output; kept for a bounded window only
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // open addressing: 1 + index in entries_, 0 for none; a power of two
};

}  // namespace dspark
