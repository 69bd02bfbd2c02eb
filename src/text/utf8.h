// UTF-8 decoding and encoding that never reads outside its input. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dspark {

inline constexpr uint32_t kReplacementCharacter = 0xFFFD;

// One decoded code point. Where the bytes are not UTF-8, `valid` is false, `code_point` is U+FFFD and `length` covers
// the longest prefix of a well-formed sequence (at least 1 byte): the unit that Unicode (chapter 3, "U+FFFD
// Substitution of Maximal Subparts") replaces by one U+FFFD.
struct Utf8Char {
  uint32_t code_point = 0;
  uint32_t length = 0;
  bool valid = true;
};

// The first code point of `text`, which must not be empty.
inline Utf8Char decode_utf8(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC2 || lead > 0xF4) return {kReplacementCharacter, 1, false};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range is narrower after four leads: no overlong forms, no surrogates, nothing above U+10FFFF.
  const uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t code_point = lead & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {kReplacementCharacter, i, false};
    const uint32_t next = byte(i);
    if (next < (i == 1 ? low : 0x80) || next > (i == 1 ? high : 0xBF)) return {kReplacementCharacter, i, false};
    code_point = (code_point << 6) | (next & 0x3F);
  }
  return {code_point, length, true};
}

// Appends `code_point` (at most U+10FFFF) to `out`.
void append_utf8(std::string& out, uint32_t code_point);

// `text` with each maximal invalid part replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

// How many bytes at the end of `text` may be the beginning of a character that is not complete yet: 0 to 3.
size_t incomplete_utf8_suffix(std::string_view text);

}  // namespace dspark
