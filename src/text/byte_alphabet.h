// GPT-2's byte alphabet: the 256 printable characters by which byte-level vocabularies spell bytes (bytes_to_unicode
// in the GPT-2 release): printable Latin-1 characters stand for themselves, the other 68 bytes for U+0100 upwards.
// Pure, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dspark {

// The character that spells `byte`.
uint32_t byte_alphabet_code_point(uint8_t byte);

// Appends the bytes that `token` spells to `bytes`; false (with `bytes` as it was) if it has any other character.
bool append_spelt_bytes(std::string_view token, std::string& bytes);

}  // namespace dspark
