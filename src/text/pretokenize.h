// Pretokenizer: cuts text into the pieces that a vocabulary is applied to, one after the other, as a list of steps.
// Const after create(): any thread, each with its own Scratch.
//
// The steps are those of Hugging Face's `tokenizers`, brought to one form: Digits, Punctuation, Whitespace,
// WhitespaceSplit and ByteLevel's own pattern are all splits by a pattern.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/split_regex.h"

namespace dspark {

struct PretokenizerStep {
  enum class Kind {
    kSplit,         // by `pattern`
    kPrefixSpace,   // puts a space in front of pieces that do not begin with one, as `prefix` says
    kMetaspace,     // reads U+2581 as a space, and then does the same
    kByteAlphabet,  // the steps behind it see GPT-2's byte alphabet (byte_alphabet.h) instead of the text
  };
  // What becomes of the matches of `pattern`: pieces of their own, nothing, a part of the piece before or behind, or
  // one piece for all matches in a row.
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  // Which pieces get a space: all, the one at the beginning of the whole text, none.
  enum class Prefix { kAlways, kTextStart, kNever };

  Kind kind = Kind::kSplit;
  std::string pattern;  // Oniguruma syntax
  Behavior behavior = Behavior::kIsolated;
  bool invert = false;              // what is between matches counts as the matches
  Prefix prefix = Prefix::kAlways;  // kPrefixSpace, kMetaspace
};

class Pretokenizer {
 public:
  using Sink = std::function<void(std::string_view piece)>;

  static Result<Pretokenizer> create(std::vector<PretokenizerStep> steps);

  bool empty() const { return steps_.empty(); }

  // Calls `sink` with each piece of `text`, never an empty one, in order. Pieces of text that no step changes point
  // into `text`. `at_text_start`: whether `text` begins the text that the user gave.
  void run(std::string_view text, bool at_text_start, SplitRegex::Scratch& scratch, const Sink& sink) const;

  // Whether text may be cut between an ASCII letter and an ASCII space behind it, and each part be run by itself, with
  // the same pieces as the whole: known (and tested) of the published patterns, not of others.
  bool ends_words_before_space() const { return ends_words_before_space_; }

 private:
  struct Step {
    PretokenizerStep spec;
    std::optional<SplitRegex> regex;
  };
  // A piece on its way through the steps, with its shape (see split_regex.h).
  struct Piece {
    std::string_view text;
    std::string_view shape;
    bool at_text_start;
  };

  void run_from(size_t step, const Piece& piece, SplitRegex::Scratch& scratch, const Sink& sink) const;
  void split(size_t step, const Piece& piece, SplitRegex::Scratch& scratch, const Sink& sink) const;
  void run_in_byte_alphabet(size_t step, const Piece& piece, SplitRegex::Scratch& scratch, const Sink& sink) const;

  std::vector<Step> steps_;
  bool ends_words_before_space_ = false;
};

}  // namespace dspark
