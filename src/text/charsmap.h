// Charsmap: the compiled normalisation rules of a SentencePiece model ("precompiled_charsmap"): a Darts double-array
// trie over UTF-8 strings, whose values are offsets of NUL-terminated replacements. Format: sentencepiece's
// normalizer.cc and darts-clone. Nothing in the blob is trusted. Const after parse(): any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dspark {

class Charsmap {
 public:
  struct Match {
    size_t length = 0;  // bytes of the text that the rule replaces; 0: no rule
    std::string_view replacement;
  };

  static Result<Charsmap> parse(std::string blob);

  // The rule for the longest (or the shortest) string that `text` begins with.
  Match longest(std::string_view text) const { return find(text, /*first=*/false); }
  Match shortest(std::string_view text) const { return find(text, /*first=*/true); }

 private:
  Match find(std::string_view text, bool first) const;
  std::vector<uint32_t> units_;
  std::string replacements_;  // ends in NUL
};

}  // namespace dspark
