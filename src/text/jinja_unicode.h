// Characters as Python's str sees them: positions in code points, properties, case. All text in the interpreter is
// valid UTF-8 (checked where it comes in: template source and render input). Pure, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/utf8.h"

namespace dspark::jinja {

// Offset of the first byte that is not valid UTF-8 (overlong forms and surrogates are not), or npos.
size_t find_invalid_utf8(std::string_view text);

// The code point at byte `position` of valid UTF-8; moves `position` behind it.
inline uint32_t next_code_point(std::string_view text, size_t& position) {
  if (const auto byte = static_cast<unsigned char>(text[position]); byte < 0x80) return ++position, byte;
  const Utf8Char c = decode_utf8(text.substr(position));
  position += c.length;
  return c.code_point;
}

// Where the last code point of `text`, which must not be empty, begins.
size_t last_start(std::string_view text);

size_t count_code_points(std::string_view text);

// Byte offset of code point `index`; text.size() from the end on.
size_t byte_offset(std::string_view text, size_t index);

bool is_space(uint32_t code_point);
bool is_alpha(uint32_t code_point);
bool is_decimal(uint32_t code_point);
bool is_digit(uint32_t code_point);
bool is_numeric(uint32_t code_point);
bool is_lower(uint32_t code_point);
bool is_upper(uint32_t code_point);
bool is_titlecase(uint32_t code_point);
bool is_printable(uint32_t code_point);

// Python's str methods of these names. lower() knows the final sigma, but takes only letters for its context.
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string casefold(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);
std::string swapcase(std::string_view text);

// str.strip and its halves. `characters` null: white space.
struct StripSides {
  bool left = true;
  bool right = true;
};
std::string_view strip(std::string_view text, StripSides sides, const std::string_view* characters);

// str.islower() and isupper(): some letter with case, and none of the other case.
bool is_lower_text(std::string_view text);
bool is_upper_text(std::string_view text);

// str.splitlines(): the lines without their ends, or with them.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

// As std::string_view::find, in linear time whatever the texts are.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
size_t find_last_text(std::string_view text, std::string_view wanted);

}  // namespace dspark::jinja
