// OverlapFilter: keeps training data apart from evaluation prompts, and prompts apart from each other. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "text/tokenizer.h"

namespace dspark {

class OverlapFilter {
 public:
  static constexpr size_t kTokens = 13;  // a run of so many equal tokens is an overlap

  // `fixed_instructions` are taken out of texts before they are compared: wordings around a task that say nothing
  // about it, like "Please reason step by step."
  OverlapFilter(const Tokenizer& tokenizer, std::vector<std::string> fixed_instructions)
      : tokenizer_(tokenizer), fixed_(std::move(fixed_instructions)) {}

  void add_evaluation(std::string_view text);

  // True if `text` is an evaluation prompt, up to case and white space, or shares a run of kTokens tokens with one.
  bool overlaps(std::string_view text) const;
  bool overlaps(std::span<const int32_t> tokens) const;

  // True if the same user turns, up to case and white space, were seen before; from now on they were.
  bool seen_before(std::span<const std::string> turns);

 private:
  std::string without_fixed(std::string_view text) const;

  const Tokenizer& tokenizer_;
  std::vector<std::string> fixed_;
  std::unordered_set<uint64_t> runs_;     // hashes of runs of tokens
  std::unordered_set<uint64_t> prompts_;  // hashes of whole evaluation prompts
  std::unordered_set<uint64_t> seen_;
};

}  // namespace dspark
