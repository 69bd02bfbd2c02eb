// UTF-8 decoding and encoding that never reads outside its input. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dspark {

// Appends `code_point` (at most U+10FFFF) to `out`.
void append_utf8(std::string& out, uint32_t code_point);

}  // namespace dspark
