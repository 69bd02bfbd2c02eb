// See jinja_unicode.h.
#include "text/jinja_unicode.h"

#include <string.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "text/utf8.h"

namespace dspark::jinja {
namespace {

// Code points first, first + stride, ..., last map to themselves plus delta.
struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t stride;
  int32_t delta;
};

struct CaseSpecial {
  uint32_t code_point;
  const char* to;
};

#include "text/jinja_unicode_tables.inl"

// `flips` lists where membership changes: outside before the first, inside from there to the second, ...
bool in_set(std::span<const uint32_t> flips, uint32_t code_point) {
  return (std::upper_bound(flips.begin(), flips.end(), code_point) - flips.begin()) % 2 == 1;
}

struct CaseMap {
  std::span<const CaseRun> runs;
  std::span<const CaseSpecial> specials;
};

const CaseMap kUpperMap{kToUpper, kToUpperSpecial};
const CaseMap kLowerMap{kToLower, kToLowerSpecial};
const CaseMap kTitleMap{kToTitle, kToTitleSpecial};   // where it differs from the upper case
const CaseMap kFoldMap{kCasefold, kCasefoldSpecial};  // where it differs from the lower case

// Appends what `map` makes of the code point; false where the map has nothing for it.
bool append_mapped(std::string& out, const CaseMap& map, uint32_t code_point) {
  auto special = std::lower_bound(map.specials.begin(), map.specials.end(), code_point,
                                  [](const CaseSpecial& s, uint32_t cp) { return s.code_point < cp; });
  if (special != map.specials.end() && special->code_point == code_point) {
    out += special->to;
    return true;
  }
  auto run = std::lower_bound(map.runs.begin(), map.runs.end(), code_point,
                              [](const CaseRun& r, uint32_t cp) { return r.last < cp; });
  if (run == map.runs.end() || code_point < run->first || (code_point - run->first) % run->stride != 0) return false;
  append_utf8(out, code_point + static_cast<uint32_t>(run->delta));
  return true;
}

void append_upper(std::string& out, uint32_t code_point) {
  if (!append_mapped(out, kUpperMap, code_point)) append_utf8(out, code_point);
}

void append_title(std::string& out, uint32_t code_point) {
  if (!append_mapped(out, kTitleMap, code_point)) append_upper(out, code_point);
}

bool is_cased(uint32_t code_point) { return is_lower(code_point) || is_upper(code_point) || is_titlecase(code_point); }

// The lower case of the code point that lies in text[start, end).
void append_lower(std::string& out, std::string_view text, size_t start, size_t end, uint32_t code_point) {
  constexpr uint32_t kCapitalSigma = 0x3A3;
  constexpr uint32_t kFinalSigma = 0x3C2;
  if (code_point == kCapitalSigma && start > 0) {
    size_t before = start - 1;
    while (before > 0 && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) --before;
    const bool inside_word = end < text.size() && [&] {
      size_t after = end;
      return is_cased(next_code_point(text, after));
    }();
    if (is_cased(next_code_point(text, before)) && !inside_word) return append_utf8(out, kFinalSigma);
  }
  if (!append_mapped(out, kLowerMap, code_point)) append_utf8(out, code_point);
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
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(at);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || text.size() - at < length) return at;
    for (size_t i = 1; i < length; ++i) {
      if ((byte(at + i) & 0xC0) != 0x80) return at;
    }
    const unsigned char second = byte(at + 1);
    const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
    const bool beyond = (lead == 0xED && second > 0x9F) || (lead == 0xF4 && second > 0x8F);  // surrogates, > U+10FFFF
    if (overlong || beyond) return at;
    at += length;
  }
  return std::string_view::npos;
}

uint32_t next_code_point(std::string_view text, size_t& position) {
  const auto lead = static_cast<unsigned char>(text[position++]);
  if (lead < 0x80) return lead;
  const int tail = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
  uint32_t code_point = lead & (0x3Fu >> tail);
  for (int i = 0; i < tail && position < text.size(); ++i) {
    code_point = code_point << 6 | (static_cast<unsigned char>(text[position++]) & 0x3Fu);
  }
  return code_point;
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
bool is_alpha(uint32_t code_point) { return in_set(kAlpha, code_point); }
bool is_decimal(uint32_t code_point) { return in_set(kDecimal, code_point); }
bool is_digit(uint32_t code_point) { return in_set(kDigit, code_point); }
bool is_numeric(uint32_t code_point) { return in_set(kNumeric, code_point); }
bool is_lower(uint32_t code_point) { return in_set(kLower, code_point); }
bool is_upper(uint32_t code_point) { return in_set(kUpper, code_point); }
bool is_titlecase(uint32_t code_point) { return in_set(kTitlecase, code_point); }
bool is_printable(uint32_t code_point) { return in_set(kPrintable, code_point); }

std::string upper(std::string_view text) {
  return rewrite(text, [](std::string& out, size_t, size_t, uint32_t cp) { append_upper(out, cp); });
}

std::string lower(std::string_view text) {
  return rewrite(
      text, [&](std::string& out, size_t start, size_t end, uint32_t cp) { append_lower(out, text, start, end, cp); });
}

std::string casefold(std::string_view text) {
  return rewrite(text, [&](std::string& out, size_t, size_t, uint32_t cp) {
    if (append_mapped(out, kFoldMap, cp) || append_mapped(out, kLowerMap, cp)) return;
    append_utf8(out, cp);
  });
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
    size_t start = last - 1;
    while (start > first && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
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
