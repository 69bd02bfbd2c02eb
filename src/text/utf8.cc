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

}  // namespace dspark
