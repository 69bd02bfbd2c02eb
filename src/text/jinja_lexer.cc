// See jinja_lexer.h.
#include "text/jinja_lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "text/jinja_error.h"
#include "text/jinja_unicode.h"
#include "text/utf8.h"

namespace dspark::jinja {
namespace {

using std::string_view;

// "\r\n" and "\r" become "\n", and one newline at the end goes.
std::string normalize_newlines(string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out += source[at];
    } else {
      out += '\n';
      if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

int digit_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  const char letter = static_cast<char>(c | 0x20);
  return letter >= 'a' && letter <= 'z' ? letter - 'a' + 10 : 99;
}

class Lexer {
 public:
  explicit Lexer(string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) lex_text();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool next_is(string_view wanted) const { return source_.substr(at_).starts_with(wanted); }

  // Moves on and counts lines.
  void advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(at_ + bytes), '\n'));
    at_ += bytes;
  }

  void skip_space() {
    const string_view rest = source_.substr(at_);
    advance(rest.size() - strip(rest, {true, false}, nullptr).size());
  }

  void add(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }

  // The text up to the next tag, that tag included.
  void lex_text() {
    const size_t start = at_;
    size_t open = start;
    while ((open = source_.find('{', open)) != string_view::npos) {
      const char kind = open + 1 < source_.size() ? source_[open + 1] : '\0';
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++open;
    }
    if (open == string_view::npos) {
      add_text(source_.substr(start));
      advance(source_.size() - start);
      return;
    }
    const char kind = source_[open + 1];
    const char sign = open + 2 < source_.size() ? source_[open + 2] : '\0';
    const bool signed_tag = sign == '-' || sign == '+';
    add_text(trim_before_tag(source_.substr(start, open - start), signed_tag ? sign : '\0', kind == '{'));
    advance(open - start);
    if (kind == '%' && lex_raw()) return;
    const int tag_line = line_;
    if (kind != '#') add(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
    advance(signed_tag ? 3 : 2);
    kind == '#' ? skip_comment(tag_line) : lex_tag(kind == '{');
  }

  void add_text(string_view text) {
    if (!text.empty()) add(TokenType::kText, std::string(text));
  }

  // What of the text before a tag stays: "-" strips all white space, and before blocks and comments that begin a line
  // their indentation goes (lstrip_blocks), unless "+" keeps it.
  string_view trim_before_tag(string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, {false, true}, nullptr);
    if (sign == '+' || is_variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t line_start = newline == string_view::npos ? 0 : newline + 1;
    if (line_start == 0 && !line_starting_) return text;
    const bool blank = strip(text.substr(line_start), {true, false}, nullptr).empty();
    return blank ? text.substr(0, line_start) : text;
  }

  // If "{% raw %}" begins here: adds what it encloses as text.
  bool lex_raw() {
    size_t at = at_ + 2;
    const auto skip = [&] { at = source_.size() - strip(source_.substr(at), {true, false}, nullptr).size(); };
    const auto sign = [&](char c) { return at < source_.size() && source_[at] == c; };
    if (sign('-') || sign('+')) ++at;
    skip();
    if (!source_.substr(at).starts_with("raw")) return false;
    at += 3;
    skip();
    const bool strips = source_.substr(at).starts_with("-%}");
    if (!strips && !source_.substr(at).starts_with("%}")) return false;
    at += strips ? 3 : 2;
    if (strips) skip();
    const int raw_line = line_;
    advance(at - at_);
    line_starting_ = source_[at_ - 1] == '\n';
    for (size_t open = at_; (open = source_.find("{%", open)) != string_view::npos; ++open) {
      at = open + 2;
      const char tag_sign = sign('-') ? '-' : sign('+') ? '+' : '\0';
      if (tag_sign != '\0') ++at;
      skip();
      if (!source_.substr(at).starts_with("endraw")) continue;
      at += 6;
      skip();
      const size_t end = block_end(at);
      if (end == 0) continue;
      add_text(trim_before_tag(source_.substr(at_, open - at_), tag_sign, false));
      advance(end - at_);
      line_starting_ = source_[at_ - 1] == '\n';
      return true;
    }
    fail_syntax(raw_line, "Missing end of raw directive");
  }

  // The end of a "%}" with its sign, or of a newline or white space that it removes; 0 if there is none at `at`.
  size_t block_end(size_t at) const {
    const string_view rest = source_.substr(at);
    if (rest.starts_with("+%}")) return at + 3;
    if (rest.starts_with("-%}")) return source_.size() - strip(rest.substr(3), {true, false}, nullptr).size();
    if (!rest.starts_with("%}")) return 0;
    return at + (rest.starts_with("%}\n") ? 3 : 2);
  }

  void skip_comment(int comment_line) {
    const size_t end = source_.find("#}", at_);
    if (end == string_view::npos) fail_syntax(comment_line, "Missing end of comment tag");
    const char sign = end > at_ ? source_[end - 1] : '\0';
    advance(end + 2 - at_);
    if (sign == '-') skip_space();
    if (sign != '-' && sign != '+' && next_is("\n")) advance(1);
    line_starting_ = source_[at_ - 1] == '\n';
  }

  bool lex_tag_end(bool is_variable) {
    if (!brackets_.empty()) return false;
    size_t end = 0;
    if (!is_variable) {
      end = block_end(at_);
    } else if (next_is("-}}")) {
      end = source_.size() - strip(source_.substr(at_ + 3), {true, false}, nullptr).size();
    } else if (next_is("}}")) {
      end = at_ + 2;
    }
    if (end == 0) return false;
    add(is_variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
    advance(end - at_);
    line_starting_ = source_[at_ - 1] == '\n';
    return true;
  }

  void lex_tag(bool is_variable) {
    while (at_ < source_.size()) {
      if (lex_tag_end(is_variable)) return;
      const size_t before = at_;
      skip_space();
      if (at_ > before) continue;
      const char c = source_[at_];
      if (is_ascii_digit(c)) {
        lex_number();
      } else if (c == '\'' || c == '"') {
        lex_string(c);
      } else if (!lex_name()) {
        lex_operator();
      }
    }
  }

  // The end of digits of `base` from `at`, single underscores between them allowed.
  size_t digits_end(size_t at, int base) const {
    while (at < source_.size()) {
      size_t digit = at + (source_[at] == '_' ? 1 : 0);
      if (digit >= source_.size() || digit_value(source_[digit]) >= base) break;
      at = digit + 1;
    }
    return at;
  }

  // A real number's end, or 0 if the digits up to `whole` are not the start of one.
  size_t real_end(size_t whole) const {
    if (at_ > 0 && source_[at_ - 1] == '.') return 0;
    size_t end = 0, at = whole;
    if (at + 1 < source_.size() && source_[at] == '.' && is_ascii_digit(source_[at + 1])) {
      end = at = digits_end(at + 1, 10);
    }
    if (at < source_.size() && (source_[at] | 0x20) == 'e') {
      size_t digits = at + 1;
      if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) ++digits;
      if (digits < source_.size() && is_ascii_digit(source_[digits])) end = digits_end(digits, 10);
    }
    return end;
  }

  void lex_number() {
    const size_t whole = digits_end(at_, 10);
    if (const size_t end = real_end(whole); end != 0) {
      const std::string text = without_underscores(end);
      double value = 0;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      if (result.ec != std::errc()) fail_syntax(line_, "the number {} is out of range", text);
      tokens_.push_back({TokenType::kReal, line_, text, 0, value});
      advance(end - at_);
      return;
    }
    int base = 10;
    size_t end = whole;
    const char kind =
        source_[at_] == '0' && at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 0x20) : '\0';
    if (kind == 'x' || kind == 'o' || kind == 'b') {
      const int wanted = kind == 'x' ? 16 : kind == 'o' ? 8 : 2;
      const size_t digits = digits_end(at_ + 2, wanted);
      if (digits > at_ + 2) base = wanted, end = digits;
    } else if (source_[at_] == '0') {
      end = at_ + 1;
      while (end < whole && (source_[end] == '0' || (source_[end] == '_' && source_[end + 1] == '0'))) ++end;
    }
    Int value = 0;
    for (size_t i = base == 10 ? at_ : at_ + 2; i < end; ++i) {
      if (source_[i] == '_') continue;
      if (__builtin_mul_overflow(value, static_cast<Int>(base), &value) ||
          __builtin_add_overflow(value, static_cast<Int>(digit_value(source_[i])), &value)) {
        fail_syntax(line_, "the integer {} needs more than 128 bits", source_.substr(at_, end - at_));
      }
    }
    tokens_.push_back({TokenType::kInteger, line_, std::string(source_.substr(at_, end - at_)), value});
    advance(end - at_);
  }

  std::string without_underscores(size_t end) const {
    std::string text(source_.substr(at_, end - at_));
    std::erase(text, '_');
    return text;
  }

  bool lex_name() {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      const uint32_t cp = next_code_point(source_, next);
      const bool letter = cp == '_' || is_alpha(cp);
      if (!letter && (end == at_ || !is_numeric(cp))) break;
      end = next;
    }
    if (end == at_) return false;
    add(TokenType::kName, std::string(source_.substr(at_, end - at_)));
    advance(end - at_);
    return true;
  }

  void lex_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size())
      fail_syntax(line_, "unexpected char {0}{1}{0} at {2}: the string has no end", quote == '"' ? '\'' : '"', quote,
                  at_);
    add(TokenType::kString, unescape(source_.substr(at_ + 1, end - at_ - 1)));
    advance(end + 1 - at_);
  }

  std::string unescape(string_view text) const {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '\\') {
        out += text[at++];
        continue;
      }
      const char c = text[++at];  // a string never ends in a single backslash
      constexpr string_view kCodes = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t known = kCodes.find(c); known != string_view::npos) {
        out += kMeanings[known];
        ++at;
      } else if (c == '\n') {
        ++at;
      } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        for (int i = 0; i < 3 && at < text.size() && text[at] >= '0' && text[at] <= '7'; ++i) {
          code = code * 8 + static_cast<uint32_t>(text[at++] - '0');
        }
        append_utf8(out, code);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        append_utf8(out, hex_escape(text, at));
      } else if (c == 'N') {
        fail_syntax(line_, "\\N{{...}} escapes are not supported: write the character itself");
      } else {
        out += '\\';  // unknown escapes stay as they are
      }
    }
    return out;
  }

  uint32_t hex_escape(string_view text, size_t& at) const {
    const char kind = text[at++];
    const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
    uint32_t code = 0;
    for (int i = 0; i < digits; ++i, ++at) {
      if (at >= text.size() || digit_value(text[at]) >= 16) {
        fail_syntax(line_, "truncated \\{}{} escape", kind, std::string(static_cast<size_t>(digits), 'X'));
      }
      code = code << 4 | static_cast<uint32_t>(digit_value(text[at]));
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      fail_syntax(line_, "\\{}{:x} is no character of its own", kind, code);
    }
    return code;
  }

  void lex_operator() {
    constexpr string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    const string_view rest = source_.substr(at_);
    size_t length = 0;
    for (string_view op : kDouble) {
      if (rest.starts_with(op)) length = 2;
    }
    if (length == 0 && string_view("+-/*%~[](){}><=.:|,;").find(rest[0]) != string_view::npos) length = 1;
    if (length == 0) {
      size_t end = 0;
      next_code_point(rest, end);
      fail_syntax(line_, "unexpected char '{}' at {}", rest.substr(0, end), at_);
    }
    balance(rest[0]);
    add(TokenType::kOperator, std::string(rest.substr(0, length)));
    advance(length);
  }

  void balance(char c) {
    if (c == '{') brackets_ += '}';
    if (c == '(') brackets_ += ')';
    if (c == '[') brackets_ += ']';
    if (c != '}' && c != ')' && c != ']') return;
    if (brackets_.empty()) fail_syntax(line_, "unexpected '{}'", c);
    if (brackets_.back() != c) fail_syntax(line_, "unexpected '{}', expected '{}'", c, brackets_.back());
    brackets_.pop_back();
  }

  const string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // what was read last ends a line
  std::string brackets_;       // the closing ones that are due, in a tag
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    fail_syntax(1, "the template has {} bytes, the limit is {}", source.size(), kMaxSourceBytes);
  }
  if (const size_t bad = find_invalid_utf8(source); bad != std::string_view::npos) {
    const auto before = source.substr(0, bad);
    fail_syntax(1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
                "the template is not valid UTF-8 at byte {}", bad);
  }
  const std::string normalized = normalize_newlines(source);
  return Lexer(normalized).run();
}

}  // namespace dspark::jinja
