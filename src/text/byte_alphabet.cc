// See byte_alphabet.h.
#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace dspark {
namespace {

struct Alphabet {
  std::array<uint16_t, 256> code_point{};
  std::array<int16_t, 0x144> byte{};  // -1: spells nothing

  constexpr Alphabet() {
    byte.fill(-1);
    uint16_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      code_point[b] = printable ? static_cast<uint16_t>(b) : next++;
      byte[code_point[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

uint32_t byte_alphabet_code_point(uint8_t byte) { return kAlphabet.code_point[byte]; }

bool append_spelt_bytes(std::string_view token, std::string& bytes) {
  const size_t before = bytes.size();
  while (!token.empty()) {
    const Utf8Char c = decode_utf8(token);
    if (c.code_point >= kAlphabet.byte.size() || kAlphabet.byte[c.code_point] < 0) {
      bytes.resize(before);
      return false;
    }
    bytes += static_cast<char>(kAlphabet.byte[c.code_point]);
    token.remove_prefix(c.length);
  }
  return true;
}

}  // namespace dspark
