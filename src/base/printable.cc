// See printable.h. Pure, any thread.
#include "base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace dspark {
namespace {

// Length of the well-formed printable UTF-8 sequence at the front of `text`, 0 if there is none.
size_t printable_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0}; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7F ? 1 : 0;
  // U+0080 to U+009F are control characters, too.
  if (first >= 0xC2 && first <= 0xDF) return tail(1) && !(first == 0xC2 && byte(1) < 0xA0) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    // U+2028 to U+202E and U+2066 to U+2069 break or reorder lines.
    const bool steering = first == 0xE2 && ((byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) ||
                                            (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9));
    return tail(1) && tail(2) && !overlong && !surrogate && !steering ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool outside = (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) >= 0x90);
    return tail(1) && tail(2) && tail(3) && !outside ? 4 : 0;
  }
  return 0;
}

// The escape of the byte at the front where it cannot stand as it is, or nothing.
std::string escape(std::string_view text, bool quotes) {
  switch (text.front()) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    case '\'':
      return quotes ? "\\'" : "";
    default:
      return printable_length(text) > 0 ? "" : fmt::format("\\x{:02x}", static_cast<uint8_t>(text.front()));
  }
}

std::string escaped(std::string_view text, size_t max_bytes, bool quotes) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    const std::string stand_in = escape(text.substr(i), quotes);
    const size_t length = stand_in.empty() ? printable_length(text.substr(i)) : 1;
    if (i + length > max_bytes) return out + "...";
    out += stand_in.empty() ? text.substr(i, length) : std::string_view(stand_in);
    i += length;
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) { return escaped(text, max_bytes, false); }

std::string quote(std::string_view text, size_t max_bytes) {
  return fmt::format("'{}'", escaped(text, max_bytes, true));
}

}  // namespace dspark
