// The methods of Python's str, as templates call them: {{ text.strip() }}. See jinja_strings.h.
#include "text/jinja_strings.h"

#include <algorithm>
#include <limits>

#include "text/jinja_format.h"
#include "text/jinja_ops.h"
#include "text/jinja_unicode.h"

namespace dspark::jinja {
namespace {

using std::string_view;

// The part [start, end) of a text that find, count, startswith, ... look at, by code points as Python counts them.
struct Window {
  string_view text;
  size_t offset = 0;  // code points before it
  bool valid = true;  // false: start lies behind the end, where not even the empty text is found
};

Window window(Runtime& rt, const Value& self, const Args& args, size_t first) {
  const string_view text = *self.text();
  if (!args.given(first) && !args.given(first + 1)) return {text};
  const auto size = static_cast<Int>(*length(rt, self));
  const auto bound = [&](size_t i, Int fallback) {
    Int value = args.given(i) ? args.integer(i, 0) : fallback;
    if (value < 0) value = std::max<Int>(value + size, 0);
    return value;
  };
  const Int start = bound(first, 0), end = std::min(bound(first + 1, size), size);
  if (start > end) return {{}, 0, false};
  const size_t begin = byte_offset(text, static_cast<size_t>(start));
  const string_view rest = text.substr(begin);
  return {rest.substr(0, byte_offset(rest, static_cast<size_t>(end - start))), static_cast<size_t>(start)};
}

Int find_in(const Window& where, string_view wanted, bool last) {
  if (!where.valid) return -1;
  const size_t found = last ? find_last_text(where.text, wanted) : find_text(where.text, wanted);
  if (found == string_view::npos) return -1;
  return static_cast<Int>(where.offset + count_code_points(where.text.substr(0, found)));
}

template <bool kLast>
Value method_find(Runtime& rt, const Value& self, const Args& args) {
  return Value::integer(find_in(window(rt, self, args, 1), args.text(0), kLast));
}

template <bool kLast>
Value method_index(Runtime& rt, const Value& self, const Args& args) {
  const Int found = find_in(window(rt, self, args, 1), args.text(0), kLast);
  if (found < 0) fail("substring not found");
  return Value::integer(found);
}

Value method_count(Runtime& rt, const Value& self, const Args& args) {
  const Window where = window(rt, self, args, 1);
  const string_view wanted = args.text(0);
  if (!where.valid) return Value::integer(0);
  if (wanted.empty()) return Value::integer(static_cast<Int>(count_code_points(where.text)) + 1);
  Int count = 0;
  for (size_t at = 0; (at = find_text(where.text, wanted, at)) != string_view::npos; at += wanted.size()) ++count;
  return Value::integer(count);
}

// startswith and endswith: the argument is a text or a tuple of texts.
template <class Test>
Value any_affix(Runtime& rt, const Value& self, const Args& args, Test test) {
  const Window where = window(rt, self, args, 1);
  const List* several = args[0].get<List>();
  if (several == nullptr || !several->is_tuple) return Value::boolean(where.valid && test(where.text, args.text(0)));
  for (const Value& affix : several->items) {
    if (affix.text() == nullptr) fail("tuple for startswith must only contain str, not {}", affix.type_name());
    rt.work(1);
    if (where.valid && test(where.text, string_view(*affix.text()))) return Value::boolean(true);
  }
  return Value::boolean(false);
}

Value method_startswith(Runtime& rt, const Value& self, const Args& args) {
  return any_affix(rt, self, args, [](string_view text, string_view affix) { return text.starts_with(affix); });
}

Value method_endswith(Runtime& rt, const Value& self, const Args& args) {
  return any_affix(rt, self, args, [](string_view text, string_view affix) { return text.ends_with(affix); });
}

Value method_removeprefix(Runtime& rt, const Value& self, const Args& args) {
  const string_view text = *self.text(), affix = args.text(0);
  return text.starts_with(affix) ? rt.text(std::string(text.substr(affix.size()))) : self;
}

Value method_removesuffix(Runtime& rt, const Value& self, const Args& args) {
  const string_view text = *self.text(), affix = args.text(0);
  return text.ends_with(affix) ? rt.text(std::string(text.substr(0, text.size() - affix.size()))) : self;
}

template <StripSides kSides>
Value method_strip(Runtime& rt, const Value& self, const Args& args) {
  const string_view characters = args.given(0) ? string_view(args.text(0)) : string_view();
  rt.work(characters.size());
  const string_view stripped = strip(*self.text(), kSides, args.given(0) ? &characters : nullptr);
  return stripped.size() == self.text()->size() ? self : rt.text(std::string(stripped));
}

Value method_replace(Runtime& rt, const Value& self, const Args& args) {
  return rt.text(replace_text(rt, *self.text(), args.text(0), args.text(1), args.integer(2, -1)));
}

// split() without a separator: at runs of white space, from the left or the right.
std::vector<string_view> split_white(string_view text, Int most, bool from_right) {
  std::vector<string_view> parts;
  const StripSides near{!from_right, from_right};
  text = strip(text, near, nullptr);
  while (!text.empty()) {
    if (most >= 0 && static_cast<Int>(parts.size()) == most) {
      parts.push_back(text);
      break;
    }
    size_t begin = 0, end = text.size();
    if (from_right) {
      for (size_t at = text.size(); at > 0;) {
        const size_t start = last_start(text.substr(0, at));
        size_t next = start;
        if (is_space(next_code_point(text, next))) break;
        begin = at = start;
      }
      parts.push_back(text.substr(begin));
      text = strip(text.substr(0, begin), near, nullptr);
    } else {
      for (size_t at = 0; at < text.size();) {
        const size_t start = at;
        if (is_space(next_code_point(text, at))) {
          end = start;
          break;
        }
      }
      parts.push_back(text.substr(0, end));
      text = strip(text.substr(end), near, nullptr);
    }
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string> split_at(string_view text, string_view separator, Int most) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t at; (most < 0 || static_cast<Int>(parts.size()) < most) &&
                  (at = find_text(text, separator, begin)) != string_view::npos;
       begin = at + separator.size()) {
    parts.emplace_back(text.substr(begin, at - begin));
  }
  parts.emplace_back(text.substr(begin));
  return parts;
}

template <class Part>
Value text_list(Runtime& rt, const std::vector<Part>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const auto& part : parts) items.push_back(rt.text(std::string(part)));
  return rt.list(std::move(items));
}

template <bool kFromRight>
Value method_split(Runtime& rt, const Value& self, const Args& args) {
  const Int most = args.integer(1, -1);
  if (!args.given(0)) return text_list(rt, split_white(*self.text(), most, kFromRight));
  const std::string& separator = args.text(0);
  if (separator.empty()) fail("empty separator");
  if (!kFromRight) return text_list(rt, split_at(*self.text(), separator, most));
  // Separators may overlap themselves, so that the split from the right is the split of the reversed text.
  const auto reversed = [](const std::string& s) { return std::string(s.rbegin(), s.rend()); };
  auto parts = split_at(reversed(*self.text()), reversed(separator), most);
  std::reverse(parts.begin(), parts.end());
  for (std::string& part : parts) std::reverse(part.begin(), part.end());
  return text_list(rt, parts);
}

Value method_splitlines(Runtime& rt, const Value& self, const Args& args) {
  return text_list(rt, split_lines(*self.text(), args.truth(0, false)));
}

template <bool kLast>
Value method_partition(Runtime& rt, const Value& self, const Args& args) {
  const string_view text = *self.text(), separator = args.text(0);
  if (separator.empty()) fail("empty separator");
  const size_t at = kLast ? find_last_text(text, separator) : find_text(text, separator);
  if (at == string_view::npos) {
    const Value empty = rt.text("");
    return kLast ? rt.tuple({empty, empty, self}) : rt.tuple({self, empty, empty});
  }
  return rt.tuple(
      {rt.text(std::string(text.substr(0, at))), args[0], rt.text(std::string(text.substr(at + separator.size())))});
}

Value method_join(Runtime& rt, const Value& self, const Args& args) {
  std::string out;
  Cursor cursor(rt, args[0]);
  size_t index = 0;
  for (Value item; cursor.next(item); ++index) {
    if (item.text() == nullptr) fail("sequence item {}: expected str instance, {} found", index, item.type_name());
    rt.check_text(out.size() + self.text()->size() + item.text()->size());
    if (index > 0) out += *self.text();
    out += *item.text();
  }
  return rt.text(std::move(out));
}

// Fills up to a width: ljust, rjust and center.
template <bool kLeft, bool kRight>
Value method_justify(Runtime& rt, const Value& self, const Args& args) {
  const string_view fill = args.text(1, " ");
  if (count_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  return rt.text(justify_text(rt, *self.text(), args.integer(0, 0), fill, kLeft, kRight));
}

Value method_zfill(Runtime& rt, const Value& self, const Args& args) {
  const std::string& text = *self.text();
  const bool sign = text.starts_with('+') || text.starts_with('-');
  const std::string digits = sign ? text.substr(1) : text;
  return rt.text(text.substr(0, sign ? 1 : 0) +
                 justify_text(rt, digits, args.integer(0, 0) - (sign ? 1 : 0), "0", true, false));
}

Value method_expandtabs(Runtime& rt, const Value& self, const Args& args) {
  const Int size = args.integer(0, 8);
  std::string out;
  Int column = 0;
  for (char c : *self.text()) {
    if (c == '\t') {
      const Int spaces = size > 0 ? size - column % size : 0;
      rt.check_text(out.size() + static_cast<size_t>(std::min<Int>(spaces, std::numeric_limits<int64_t>::max())));
      out.append(static_cast<size_t>(spaces), ' ');
      column += spaces;
    } else {
      out += c;
      if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++column;
      if (c == '\n' || c == '\r') column = 0;
    }
  }
  return rt.text(std::move(out));
}

template <std::string (*kRewrite)(string_view)>
Value method_rewrite(Runtime& rt, const Value& self, const Args&) {
  return rt.text(kRewrite(*self.text()));
}

template <bool (*kTest)(string_view)>
Value method_test(Runtime&, const Value& self, const Args&) {
  return Value::boolean(kTest(*self.text()));
}

// Not empty, and each code point satisfies kTest.
template <bool (*kTest)(uint32_t)>
bool all_are(string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (!kTest(next_code_point(text, at))) return false;
  }
  return !text.empty();
}

bool is_alphanumeric(uint32_t cp) { return is_alpha(cp) || is_decimal(cp) || is_digit(cp) || is_numeric(cp); }
bool is_identifier_part(uint32_t cp) { return cp == '_' || is_alphanumeric(cp); }

bool is_identifier(string_view text) {
  size_t at = 0;
  return all_are<is_identifier_part>(text) && (text[0] == '_' || is_alpha(next_code_point(text, at)));
}
bool is_ascii(string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}
bool is_printable_text(string_view text) { return text.empty() || all_are<is_printable>(text); }

bool is_title(string_view text) {
  bool in_word = false, some = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t cp = next_code_point(text, at);
    const bool begins = is_upper(cp) || is_titlecase(cp);
    if ((begins && in_word) || (is_lower(cp) && !in_word)) return false;
    in_word = begins || is_lower(cp);
    some = some || in_word;
  }
  return some;
}

Value method_format(Runtime& rt, const Value& self, const Args& args) {
  return rt.text(format_braces(rt, self, args.all()));
}

Value method_format_map(Runtime& rt, const Value& self, const Args& args) {
  const Dict* mapping = args[0].get<Dict>();
  if (mapping == nullptr) fail("format_map() argument must be dict, not {}", args[0].type_name());
  CallArgs named;
  for (const auto& [key, value] : mapping->entries()) {
    if (key.text() != nullptr) named.named.emplace_back(*key.text(), value);
  }
  return rt.text(format_braces(rt, self, named));
}

Value method_unsupported(Runtime&, const Value&, const Args&) {
  fail("this method of str is not supported in chat templates");
}

constexpr Native kTextMethods[] = {
    {"capitalize", "", method_rewrite<capitalize>},
    {"casefold", "", method_rewrite<casefold>},
    {"center", "width | fillchar", method_justify<true, true>},
    {"count", "sub | start end", method_count},
    {"encode", "*", method_unsupported},
    {"endswith", "suffix | start end", method_endswith},
    {"expandtabs", "| tabsize", method_expandtabs},
    {"find", "sub | start end", method_find<false>},
    {"format", "*", method_format},
    {"format_map", "mapping", method_format_map},
    {"index", "sub | start end", method_index<false>},
    {"isalnum", "", method_test<all_are<is_alphanumeric>>},
    {"isalpha", "", method_test<all_are<is_alpha>>},
    {"isascii", "", method_test<is_ascii>},
    {"isdecimal", "", method_test<all_are<is_decimal>>},
    {"isdigit", "", method_test<all_are<is_digit>>},
    {"isidentifier", "", method_test<is_identifier>},
    {"islower", "", method_test<is_lower_text>},
    {"isnumeric", "", method_test<all_are<is_numeric>>},
    {"isprintable", "", method_test<is_printable_text>},
    {"isspace", "", method_test<all_are<is_space>>},
    {"istitle", "", method_test<is_title>},
    {"isupper", "", method_test<is_upper_text>},
    {"join", "iterable", method_join},
    {"ljust", "width | fillchar", method_justify<false, true>},
    {"lower", "", method_rewrite<lower>},
    {"lstrip", "| chars", method_strip<StripSides{true, false}>},
    {"maketrans", "*", method_unsupported},
    {"partition", "sep", method_partition<false>},
    {"removeprefix", "prefix", method_removeprefix},
    {"removesuffix", "suffix", method_removesuffix},
    {"replace", "old new | count", method_replace},
    {"rfind", "sub | start end", method_find<true>},
    {"rindex", "sub | start end", method_index<true>},
    {"rjust", "width | fillchar", method_justify<true, false>},
    {"rpartition", "sep", method_partition<true>},
    {"rsplit", "| sep maxsplit", method_split<true>},
    {"rstrip", "| chars", method_strip<StripSides{false, true}>},
    {"split", "| sep maxsplit", method_split<false>},
    {"splitlines", "| keepends", method_splitlines},
    {"startswith", "prefix | start end", method_startswith},
    {"strip", "| chars", method_strip<StripSides{true, true}>},
    {"swapcase", "", method_rewrite<swapcase>},
    {"title", "", method_rewrite<title>},
    {"translate", "*", method_unsupported},
    {"upper", "", method_rewrite<upper>},
    {"zfill", "width", method_zfill},
};

}  // namespace

const Native* find_text_method(string_view name) {
  const auto* found = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                   [&](const Native& method) { return method.name == name; });
  return found == std::end(kTextMethods) ? nullptr : found;
}

std::string replace_text(Runtime& rt, string_view text, string_view old, string_view by, Int most) {
  std::string out;
  size_t at = 0;
  for (Int count = 0; most < 0 || count < most; ++count) {
    const size_t found = find_text(text, old, at);
    if (found == string_view::npos) break;
    size_t end = found + old.size();
    if (old.empty() && found < text.size()) next_code_point(text, end);  // between all characters, and at both ends
    rt.check_text(out.size() + (end - at) + by.size());
    out += text.substr(at, found - at);
    out += by;
    out += text.substr(found + old.size(), end - found - old.size());
    at = end;
    if (old.empty() && found == text.size()) return out;
  }
  rt.check_text(out.size() + text.size() - at);
  out += text.substr(at);
  return out;
}

std::string justify_text(Runtime& rt, string_view text, Int width, string_view fill, bool left, bool right) {
  const auto size = static_cast<Int>(count_code_points(text));
  if (width <= size) return std::string(text);
  const Int missing = width - size;
  rt.check_text(missing > static_cast<Int>(rt.limits().max_text_bytes) ? std::numeric_limits<size_t>::max()
                                                                       : static_cast<size_t>(missing) * fill.size());
  // CPython's center puts the odd one left if the width is odd too.
  const Int before = left && right ? missing / 2 + (missing & width & 1) : left ? missing : 0;
  std::string out;
  for (Int i = 0; i < before; ++i) out += fill;
  out += text;
  for (Int i = before; i < missing; ++i) out += fill;
  return out;
}

}  // namespace dspark::jinja
