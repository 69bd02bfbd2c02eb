// See jinja_unicode.h.
#include "text/jinja_unicode.h"

#include <string.h>
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "base/check.h"

namespace dspark::jinja {
namespace {

// A code point whose upper or title case is several.
struct CaseSpecial {
  uint32_t code_point;
  const char* to;
};

#include "text/jinja_unicode_tables.inl"

// `flips` lists where membership changes: outside before the first, inside from there to the second, ...
bool in_set(std::span<const uint32_t> flips, uint32_t code_point) {
  return (std::upper_bound(flips.begin(), flips.end(), code_point) - flips.begin()) % 2 == 1;
}

utf8proc_category_t category(uint32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// Appends what `specials` have for the code point; false if they have nothing.
bool append_special(std::string& out, std::span<const CaseSpecial> specials, uint32_t code_point) {
  const auto found = std::lower_bound(specials.begin(), specials.end(), code_point,
                                      [](const CaseSpecial& s, uint32_t cp) { return s.code_point < cp; });
  if (found == specials.end() || found->code_point != code_point) return false;
  out += found->to;
  return true;
}

using Mapping = utf8proc_int32_t(utf8proc_int32_t);
void append_simple(std::string& out, Mapping map, uint32_t code_point) {
  append_utf8(out, static_cast<uint32_t>(map(static_cast<utf8proc_int32_t>(code_point))));
}

void append_upper(std::string& out, uint32_t code_point) {
  if (code_point < 0x80) {
    out += static_cast<char>(code_point >= 'a' && code_point <= 'z' ? code_point - 0x20 : code_point);
  } else if (!append_special(out, kUpperSpecial, code_point)) {
    append_simple(out, utf8proc_toupper, code_point);
  }
}

void append_title(std::string& out, uint32_t code_point) {
  if (code_point < 0x80) {
    append_upper(out, code_point);
  } else if (!append_special(out, kTitleSpecial, code_point)) {
    append_simple(out, utf8proc_totitle, code_point);
  }
}

bool is_cased(uint32_t code_point) { return is_lower(code_point) || is_upper(code_point) || is_titlecase(code_point); }

// Whether the capital sigma at text[start, end) ends a word.
bool is_final_sigma(std::string_view text, size_t start, size_t end) {
  if (start == 0) return false;
  size_t before = last_start(text.substr(0, start));
  return is_cased(next_code_point(text, before)) && (end == text.size() || !is_cased(next_code_point(text, end)));
}

// The lower case of the code point that lies in text[start, end).
void append_lower(std::string& out, std::string_view text, size_t start, size_t end, uint32_t code_point) {
  constexpr uint32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2, kCapitalDottedI = 0x130;
  if (code_point < 0x80) {
    out += static_cast<char>(code_point >= 'A' && code_point <= 'Z' ? code_point + 0x20 : code_point);
  } else if (code_point == kCapitalSigma && is_final_sigma(text, start, end)) {
    append_utf8(out, kFinalSigma);
  } else if (code_point == kCapitalDottedI) {
    out += "i\u0307";
  } else {
    append_simple(out, utf8proc_tolower, code_point);
  }
}

// Rewrites each code point by append(out, start, end, code point).
template <class Append>
std::string rewrite(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t start = at;
    const uint32_t code_point = next_code_point(text, at);
    append(out, start, at, code_point);
  }
  return out;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text.substr(at));
    if (!c.valid) return at;
    at += c.length;
  }
  return std::string_view::npos;
}

size_t last_start(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return start;
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) next_code_point(text, at);
  return at;
}

bool is_space(uint32_t cp) {
  return (cp >= 0x09 && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x20) || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
         (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

bool is_alpha(uint32_t code_point) {
  const auto kind = category(code_point);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(uint32_t code_point) { return category(code_point) == UTF8PROC_CATEGORY_ND; }
bool is_digit(uint32_t code_point) { return is_decimal(code_point) || in_set(kOtherDigit, code_point); }

bool is_numeric(uint32_t code_point) {
  const auto kind = category(code_point);
  return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) || in_set(kOtherNumeric, code_point);
}

bool is_lower(uint32_t code_point) {
  return category(code_point) == UTF8PROC_CATEGORY_LL || in_set(kOtherLower, code_point);
}

bool is_upper(uint32_t code_point) {
  return category(code_point) == UTF8PROC_CATEGORY_LU || in_set(kOtherUpper, code_point);
}

bool is_titlecase(uint32_t code_point) { return category(code_point) == UTF8PROC_CATEGORY_LT; }

bool is_printable(uint32_t code_point) {
  const auto kind = category(code_point);
  return code_point == ' ' || (kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS);
}

std::string upper(std::string_view text) {
  return rewrite(text, [](std::string& out, size_t, size_t, uint32_t cp) { append_upper(out, cp); });
}

std::string lower(std::string_view text) {
  return rewrite(
      text, [&](std::string& out, size_t start, size_t end, uint32_t cp) { append_lower(out, text, start, end, cp); });
}

std::string casefold(std::string_view text) {
  utf8proc_uint8_t* folded = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &folded, UTF8PROC_CASEFOLD);
  DSPARK_CHECK(size >= 0, "utf8proc_map: {}", utf8proc_errmsg(size));
  std::string out(reinterpret_cast<const char*>(folded), static_cast<size_t>(size));
  std::free(folded);
  return out;
}

std::string capitalize(std::string_view text) {
  return rewrite(text, [&](std::string& out, size_t start, size_t end, uint32_t cp) {
    start == 0 ? append_title(out, cp) : append_lower(out, text, start, end, cp);
  });
}

std::string title(std::string_view text) {
  bool in_word = false;
  return rewrite(text, [&](std::string& out, size_t start, size_t end, uint32_t cp) {
    in_word ? append_lower(out, text, start, end, cp) : append_title(out, cp);
    in_word = is_cased(cp);
  });
}

std::string swapcase(std::string_view text) {
  return rewrite(text, [&](std::string& out, size_t start, size_t end, uint32_t cp) {
    if (is_upper(cp)) return append_lower(out, text, start, end, cp);
    is_lower(cp) ? append_upper(out, cp) : append_utf8(out, cp);
  });
}

std::string_view strip(std::string_view text, StripSides sides, const std::string_view* characters) {
  std::u32string wanted;
  for (size_t at = 0; characters != nullptr && at < characters->size();) {
    wanted += static_cast<char32_t>(next_code_point(*characters, at));
  }
  std::sort(wanted.begin(), wanted.end());
  const auto drop = [&](uint32_t cp) {
    return characters == nullptr ? is_space(cp) : std::binary_search(wanted.begin(), wanted.end(), cp);
  };
  size_t first = 0;
  while (sides.left && first < text.size()) {
    size_t next = first;
    if (!drop(next_code_point(text, next))) break;
    first = next;
  }
  size_t last = text.size();
  while (sides.right && last > first) {
    const size_t start = first + last_start(text.substr(first, last - first));
    size_t at = start;
    if (!drop(next_code_point(text, at))) break;
    last = start;
  }
  return text.substr(first, last - first);
}

namespace {

// Some code point satisfies `wanted`, and none `excluded` or is a titlecase letter.
template <class Wanted, class Excluded>
bool all_of_case(std::string_view text, Wanted wanted, Excluded excluded) {
  bool some = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t cp = next_code_point(text, at);
    if (excluded(cp) || is_titlecase(cp)) return false;
    some = some || wanted(cp);
  }
  return some;
}

bool ends_line(uint32_t cp) {
  return (cp >= 0x0A && cp <= 0x0D) || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

}  // namespace

bool is_lower_text(std::string_view text) { return all_of_case(text, is_lower, is_upper); }
bool is_upper_text(std::string_view text) { return all_of_case(text, is_upper, is_lower); }

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const uint32_t cp = next_code_point(text, at);
    if (!ends_line(cp)) continue;
    if (cp == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

size_t find_text(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  // The sanitizers look at all that memmem might read, which makes splitting at one character quadratic.
  if (wanted.size() == 1) return text.find(wanted[0], from);
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t find_last_text(std::string_view text, std::string_view wanted) {
  const std::string back(text.rbegin(), text.rend());
  const std::string back_wanted(wanted.rbegin(), wanted.rend());
  const size_t found = find_text(back, back_wanted);
  return found == std::string_view::npos ? found : text.size() - found - wanted.size();
}

}  // namespace dspark::jinja
