// pcre2_pattern: see split_regex.h. A single pass over the pattern that keeps no more state than "inside a class".
#include <algorithm>
#include <array>

#include "base/printable.h"
#include "text/split_regex.h"
#include "text/utf8.h"

namespace dspark {
namespace {

// Unicode properties that both engines know under the same name.
constexpr std::array<std::string_view, 37> kCategories = {
    "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf",
    "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "C",  "Cc", "Cf", "Cn", "Co", "Cs"};
constexpr std::array<std::string_view, 12> kScripts = {"Arabic", "Cyrillic", "Devanagari", "Greek", "Han",   "Hangul",
                                                       "Hebrew", "Hiragana", "Katakana",   "Lao",   "Latin", "Thai"};

class SyntaxRewriter {
 public:
  explicit SyntaxRewriter(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> run() {
    while (!done()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        DSPARK_RETURN_IF_ERROR(escape());
      } else if (in_class_) {
        DSPARK_RETURN_IF_ERROR(class_member());
      } else if (c == '[') {
        DSPARK_RETURN_IF_ERROR(open_class());
      } else if (c == '(') {
        DSPARK_RETURN_IF_ERROR(open_group());
      } else if (c == '{') {
        DSPARK_RETURN_IF_ERROR(repeat());
      } else {
        out_ += take();
      }
    }
    if (in_class_) return refuse("a class without its ']'");
    return std::move(out_);
  }

 private:
  bool done() const { return at_ >= pattern_.size(); }
  char take() { return pattern_[at_++]; }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  Error refuse(std::string_view what) const {
    return make_error(
        ErrorCode::kUnsupported,
        "pre-tokenizer pattern {}: {} at byte {} may mean something else to the reference engine; rewrite "
        "the pattern without it",
        quote(pattern_), what, at_);
  }

  Status escape() {
    if (at_ + 1 >= pattern_.size()) return refuse("a lone backslash");
    const char c = pattern_[at_ + 1];
    if (c == 'p' || c == 'P') return property();
    if (c == 'x' || c == 'u') return code_point();
    if (c == 'v') {  // vertical tab; PCRE2's \v is a class
      at_ += 2;
      out_ += "\\x0B";
      return Ok{};
    }
    const bool letter_or_digit = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (letter_or_digit && std::string_view("sSdDrntfae").find(c) == std::string_view::npos) {
      return refuse(fmt::format("\\{}", c));
    }
    out_ += take();
    out_ += take();
    return Ok{};
  }

  // \p{Name}, \P{Name}, \p{^Name}
  Status property() {
    const size_t close = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || close == std::string_view::npos) {
      return refuse("a property without braces");
    }
    std::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    bool negated = pattern_[at_ + 1] == 'P';
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    out_ += negated ? "\\P{" : "\\p{";
    if (std::find(kScripts.begin(), kScripts.end(), name) != kScripts.end()) {
      out_ += "sc:";  // the script alone, as Oniguruma has it, without PCRE2's script extensions
    } else if (std::find(kCategories.begin(), kCategories.end(), name) == kCategories.end()) {
      return refuse(fmt::format("property {}", quote(name, 40)));
    }
    out_ += name;
    out_ += '}';
    at_ = close + 1;
    return Ok{};
  }

  // \xHH, \x{H...}, \uHHHH
  Status code_point() {
    const bool is_x = pattern_[at_ + 1] == 'x';
    size_t begin = at_ + 2, end = begin + (is_x ? 2 : 4), next = end;
    if (is_x && begin < pattern_.size() && pattern_[begin] == '{') {
      end = pattern_.find('}', ++begin);
      next = end == std::string_view::npos ? end : end + 1;
    }
    if (end > pattern_.size() || end - begin > 6 || end == begin) return refuse("a malformed code point");
    const std::string_view digits = pattern_.substr(begin, end - begin);
    if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      return refuse("a malformed code point");
    }
    out_ += "\\x{";
    out_ += digits;
    out_ += '}';
    at_ = next;
    return Ok{};
  }

  Status open_class() {
    in_class_ = true;
    out_ += take();
    if (next_is("^")) out_ += take();
    if (next_is("]")) return refuse("']' as the first member of a class");
    return Ok{};
  }

  Status class_member() {
    if (next_is("[")) return refuse("'[' inside a class");
    if (next_is("&&")) return refuse("'&&' inside a class");
    if (next_is("]")) in_class_ = false;
    out_ += take();
    return Ok{};
  }

  Status open_group() {
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (next_is(known)) return copy(known.size());
    }
    if (next_is("(?i:")) {
      // Case folding of one character to several ("ss" to U+00DF) is Oniguruma's alone.
      const std::string_view group = pattern_.substr(at_, pattern_.find(')', at_) - at_);
      for (const std::string_view folded : {"ss", "st", "ff", "fi", "fl"}) {
        if (group.find(folded) != std::string_view::npos) return refuse(fmt::format("a caseless {}", quote(folded)));
      }
      return copy(4);
    }
    if (next_is("(?") || next_is("(*")) return refuse("this kind of group");
    return copy(1);
  }

  // {n}, {n,}, {n,m}, maybe lazy. Ruby syntax knows no possessive or "lazy" fixed interval.
  Status repeat() {
    const size_t close = pattern_.find('}', at_);
    if (close == std::string_view::npos) return refuse("'{' without '}'");
    const std::string_view bounds = pattern_.substr(at_ + 1, close - at_ - 1);
    if (bounds.empty() || bounds.find_first_not_of("0123456789,") != std::string_view::npos || bounds[0] == ',') {
      return refuse("this use of '{'");
    }
    const char behind = close + 1 < pattern_.size() ? pattern_[close + 1] : '\0';
    if (behind == '+' || (behind == '?' && bounds.find(',') == std::string_view::npos)) {
      return refuse("a quantifier behind an interval");
    }
    return copy(close + 1 - at_);
  }

  Status copy(size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
    return Ok{};
  }

  std::string_view pattern_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

Result<std::string> pcre2_pattern(std::string_view oniguruma_pattern) {
  constexpr size_t kMaxBytes = 16384;
  if (oniguruma_pattern.size() > kMaxBytes || oniguruma_pattern.find('\0') != std::string_view::npos) {
    return make_error(ErrorCode::kCorrupt, "pre-tokenizer pattern {} is {} bytes long, expected at most {} without NUL",
                      quote(oniguruma_pattern), oniguruma_pattern.size(), kMaxBytes);
  }
  return SyntaxRewriter(oniguruma_pattern).run();
}

}  // namespace dspark
