// See utf8.h.
#include "text/utf8.h"

namespace dspark {

void append_utf8(std::string& out, uint32_t code_point) {
  auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code_point >> shift) & 0x3F)); };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0 | (code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0 | (code_point >> 12));
    tail(6), tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code_point >> 18));
    tail(12), tail(6), tail(0);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text);
    if (c.valid) {
      out.append(text.substr(0, c.length));
    } else {
      append_utf8(out, kReplacementCharacter);
    }
    text.remove_prefix(c.length);
  }
  return out;
}

size_t incomplete_utf8_suffix(std::string_view text) {
  for (size_t tail = 1; tail <= 3 && tail <= text.size(); ++tail) {
    const auto byte = static_cast<uint8_t>(text[text.size() - tail]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    // A lead byte: incomplete if everything from here on is a prefix of one well-formed sequence.
    const uint32_t wanted = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    const Utf8Char c = decode_utf8(text.substr(text.size() - tail));
    return !c.valid && c.length == tail && tail < wanted && byte >= 0xC2 && byte <= 0xF4 ? tail : 0;
  }
  return 0;
}

}  // namespace dspark
