// The element types of weights and KV: names, block shapes and GGML numbers. Pure data, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dspark {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
};
inline constexpr int kDTypeCount = 15;

struct DTypeInfo {
  DType type;
  const char* name;    // as in `--quantize q8_0`
  int ggml_type;       // number in a GGUF tensor header
  int block_elements;  // elements of one block, 1 for float types
  int block_bytes;     // bytes of one block in a file
};

const DTypeInfo& dtype_info(DType type);
std::optional<DType> dtype_from_ggml(uint32_t ggml_type);
// "q4_k" in any case; the error lists the known names.
Result<DType> dtype_from_name(std::string_view name);

inline bool is_float(DType type) { return type <= DType::kBF16; }

// Bytes of `elements` values in file layout; elements must be a multiple of block_elements.
inline int64_t dtype_bytes(DType type, int64_t elements) {
  const DTypeInfo& info = dtype_info(type);
  return elements / info.block_elements * info.block_bytes;
}

}  // namespace dspark
