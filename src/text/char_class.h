// Classes of single code points. Pure, any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace dspark {

// Unicode's White_Space property.
bool is_white_space(uint32_t code_point);

// What regular expressions call a word character: letters, marks, decimal digits, letter numbers, connectors.
bool is_word_character(uint32_t code_point);

// How many bytes of white space `text` begins or ends with.
size_t leading_white_space(std::string_view text);
size_t trailing_white_space(std::string_view text);

// The last code point of `text`, which must not be empty; U+FFFD if its last bytes are not UTF-8.
uint32_t last_code_point(std::string_view text);

}  // namespace dspark
