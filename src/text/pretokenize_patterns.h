// The pre-tokenizers of published models, by the names that GGUF files use (tokenizer.ggml.pre), and what is known of
// their patterns. Pure, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/pretokenize.h"

namespace dspark {

// GPT-2's pattern, which `tokenizers` applies in its ByteLevel step.
extern const std::string_view kGpt2Pattern;
// Code points that are numbers: the Digits step.
inline constexpr std::string_view kNumberPattern = R"(\p{N})";
// One punctuation mark as the Punctuation step has it: ASCII's, and those of Unicode 8.
extern const std::string_view kPunctuationPattern;

struct NamedPretokenizer {
  std::vector<PretokenizerStep> steps;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool add_bos = false;        // unless the file says otherwise
};

// What `tokenizer.ggml.pre` = `name` stands for. kUnsupported, with the list of known names, if it is none of them.
Result<NamedPretokenizer> named_pretokenizer(std::string_view name);

// What is known of `pattern`; nothing of one that is not among the published ones here.
struct PatternTraits {
  // No match reaches from an ASCII letter over a space behind it, or looks across that place.
  bool never_joins_letter_and_space = false;
  // ... and as a split, the pattern always ends a piece there.
  bool ends_words_before_space = false;
  // Matches digits only.
  bool only_digits = false;
};
PatternTraits pattern_traits(std::string_view pattern);

}  // namespace dspark
