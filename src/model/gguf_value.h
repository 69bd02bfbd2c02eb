// The values of GGUF metadata: their types, checked conversion to C++ types, and a text form. Any thread.
// Format: the GGUF specification in the ggml repository (docs/gguf.md), versions 2 and 3, little-endian.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace dspark {

// The numbers of the format.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

const char* gguf_type_name(GgufType type);
// Bytes of one number or bool; 0 for strings and arrays, whose length varies.
size_t gguf_scalar_bytes(GgufType type);

// One metadata pair: views into the file, whose parser has checked all lengths.
struct GgufEntry {
  std::string_view key;
  GgufType type;                  // kArray for arrays
  GgufType element;               // of an array; `type` otherwise
  uint64_t count;                 // elements; 1 for a single value
  std::span<const uint8_t> data;  // packed numbers, unaligned; strings each behind a 64-bit length
};

// The value as a T, without loss, or an error that names `file`, the key, what was found and what was expected.
// T: bool, an integer of 32 or 64 bits (from any integer type, if it fits), float or double (from f32 or f64, finite),
// std::string_view, or a std::vector of these (elements may be NaN or infinite). Views point into the file.
template <class T>
Result<T> read_gguf_value(const GgufEntry& entry, std::string_view file);

// For a person: `42`, `'text'`, `[1, 2, 3, ...] (49152 i32)`.
std::string format_gguf_value(const GgufEntry& entry, size_t max_elements = 8, size_t max_text = 120);

}  // namespace dspark
