// SplitRegex: a pre-tokenizer pattern, matched by PCRE2. Const after compile(): any thread, each with its own Scratch.
//
// Published patterns are written for Oniguruma (the reference tokenizers' engine, Ruby syntax). compile() accepts the
// part of that syntax that means the same to both engines, rewrites what is spelt differently, and refuses the rest:
// a pattern is either matched as the reference matches it, or not at all.
//
// Two things would still differ: bytes that are not UTF-8, which neither engine takes, and code points that the two
// engines' Unicode versions put into different classes. Patterns are therefore matched against a *shape* of the text
// (RegexShape): as many bytes, but each such part is replaced by a stand-in of the right class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dspark {

class SplitRegex {
 public:
  // Working memory for matching; one thread at a time.
  class Scratch {
   public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

   private:
    friend class SplitRegex;
    void* match_data_;
    void* context_;
  };

  struct Match {
    size_t begin = 0;
    size_t end = 0;
  };

  static Result<SplitRegex> compile(std::string_view oniguruma_pattern);
  ~SplitRegex();
  SplitRegex(SplitRegex&& other) noexcept;
  SplitRegex& operator=(SplitRegex&& other) noexcept;

  // The first match in `shape` (of RegexShape) that begins at byte `from` or later; look-behind sees what is before
  // `from`, nothing sees beyond `shape`. A pattern that backtracks beyond the fixed limits counts as not matching.
  bool find(std::string_view shape, size_t from, Scratch& scratch, Match* match) const;

 private:
  explicit SplitRegex(void* code) : code_(code) {}
  void* code_;
};

// The shape of a text; `text` must outlive it. Costs one pass, and a copy only if the text has anything to replace.
class RegexShape {
 public:
  explicit RegexShape(std::string_view text);
  std::string_view view() const { return copied_ ? std::string_view(copy_) : text_; }

 private:
  std::string_view text_;
  std::string copy_;
  bool copied_ = false;
};

// `oniguruma_pattern` in PCRE2's syntax, or why it cannot be had. For compile() and its tests.
Result<std::string> pcre2_pattern(std::string_view oniguruma_pattern);

}  // namespace dspark
