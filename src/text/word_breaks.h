// WordBreaks: where a piece of text can be cut without changing its tokens, because no token of the vocabulary could
// ever cover both sides: before a space (or a run of them) that follows a character which no token has before a space.
// It turns whole texts into words, so that long ones cost no more than short ones. Const after creation: any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/char_class.h"
#include "text/utf8.h"

namespace dspark {

class WordBreaks {
 public:
  // No breaks at all.
  WordBreaks() = default;

  // For a vocabulary of `pieces`. There are no breaks if the space itself is no piece: what is unknown may be joined.
  explicit WordBreaks(const std::vector<std::string_view>& pieces) {
    for (const std::string_view piece : pieces) {
      if (piece == " ") enabled_ = true;
      for (size_t at = piece.find(' ', 1); at != std::string_view::npos; at = piece.find(' ', at + 1)) {
        if (piece[at - 1] != ' ') joined_.push_back(last_code_point(piece.substr(0, at)));
      }
    }
    std::sort(joined_.begin(), joined_.end());
    joined_.erase(std::unique(joined_.begin(), joined_.end()), joined_.end());
  }

  // Whether there is a break between `text[at - 1]` and the space at `text[at]`; 0 < at < text.size().
  bool at(std::string_view text, size_t at) const {
    if (!enabled_ || text[at - 1] == ' ') return false;
    return joined_.empty() || !std::binary_search(joined_.begin(), joined_.end(), last_code_point(text.substr(0, at)));
  }

  // Calls fn(word) for each part of `text` between breaks.
  template <class Fn>
  void for_each_word(std::string_view text, Fn&& fn) const {
    size_t begin = 0;
    if (enabled_) {
      for (size_t space = text.find(' ', 1); space != std::string_view::npos; space = text.find(' ', space + 1)) {
        if (!at(text, space)) continue;
        fn(text.substr(begin, space - begin));
        begin = space;
      }
    }
    if (begin < text.size()) fn(text.substr(begin));
  }

 private:
  bool enabled_ = false;
  std::vector<uint32_t> joined_;  // code points that stand right before a space inside some token, sorted
};

}  // namespace dspark
