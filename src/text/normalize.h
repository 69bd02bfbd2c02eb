// Normalizer: rewrites text before the vocabulary is applied, as a list of steps (those of Hugging Face's `tokenizers`
// and SentencePiece's own normaliser). Const after create(): any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/charsmap.h"
#include "text/split_regex.h"

namespace dspark {

struct NormalizerStep {
  enum class Kind {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,           // Unicode normalisation forms
    kPrepend,        // `content` in front of a text that is not empty
    kReplace,        // each match of `pattern` by `content`
    kStrip,          // white space at the ends `strip_left`, `strip_right`
    kCharsmap,       // a SentencePiece charsmap as `tokenizers` applies it: by grapheme cluster
    kSentencePiece,  // SentencePiece's normaliser: `charsmap` (may be empty), by longest match
  };
  Kind kind = Kind::kNfc;
  std::string content;
  std::string pattern;         // kReplace: a literal, or a regular expression in Oniguruma syntax
  bool is_regex = false;       // kReplace
  bool strip_left = false;     // kStrip
  bool strip_right = false;    // kStrip
  std::string charsmap;        // kCharsmap, kSentencePiece: "precompiled_charsmap"
  bool add_prefix = false;     // kSentencePiece: a space in front of the text
  bool squeeze_space = false;  // kSentencePiece: no space at the ends, and one for several
};

class Normalizer {
 public:
  static Result<Normalizer> create(std::vector<NormalizerStep> steps);

  bool empty() const { return steps_.empty(); }

  // The normalised text: `text` itself where nothing changes it, else a view of `storage`. Bytes that are not UTF-8
  // pass unchanged.
  std::string_view run(std::string_view text, std::string& storage) const;

 private:
  struct Step {
    NormalizerStep spec;
    std::optional<SplitRegex> regex;
    std::optional<Charsmap> charsmap;
  };
  std::vector<Step> steps_;
};

}  // namespace dspark
