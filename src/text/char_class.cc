// See char_class.h.
#include "text/char_class.h"

#include <utf8proc.h>

#include "text/utf8.h"

namespace dspark {
namespace {

// Where the last character of `text` begins.
size_t last_begin(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && text.size() - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

}  // namespace

bool is_white_space(uint32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(uint32_t c) {
  if (c == 0x200C || c == 0x200D) return true;  // joiners belong to the word that they join
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return false;
  }
}

size_t leading_white_space(std::string_view text) {
  size_t bytes = 0;
  while (bytes < text.size()) {
    const Utf8Char c = decode_utf8(text.substr(bytes));
    if (!is_white_space(c.code_point)) break;
    bytes += c.length;
  }
  return bytes;
}

size_t trailing_white_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    const std::string_view rest = text.substr(0, end);
    if (!is_white_space(last_code_point(rest))) break;
    end = last_begin(rest);
  }
  return text.size() - end;
}

uint32_t last_code_point(std::string_view text) {
  const std::string_view tail = text.substr(last_begin(text));
  const Utf8Char c = decode_utf8(tail);
  return c.length == tail.size() ? c.code_point : kReplacementCharacter;
}

}  // namespace dspark
