// The table behind dtype.h. Pure data, any thread.
#include "kernels/dtype.h"

#include <strings.h>

#include <array>

namespace dspark {
namespace {

constexpr std::array<DTypeInfo, kDTypeCount> kInfos = {{
    {DType::kF32, "f32", 0, 1, 4},
    {DType::kF16, "f16", 1, 1, 2},
    {DType::kBF16, "bf16", 30, 1, 2},
    {DType::kQ8_0, "q8_0", 8, 32, 34},
    {DType::kQ4_0, "q4_0", 2, 32, 18},
    {DType::kQ4_1, "q4_1", 3, 32, 20},
    {DType::kQ5_0, "q5_0", 6, 32, 22},
    {DType::kQ5_1, "q5_1", 7, 32, 24},
    {DType::kQ2_K, "q2_k", 10, 256, 84},
    {DType::kQ3_K, "q3_k", 11, 256, 110},
    {DType::kQ4_K, "q4_k", 12, 256, 144},
    {DType::kQ5_K, "q5_k", 13, 256, 176},
    {DType::kQ6_K, "q6_k", 14, 256, 210},
    {DType::kIQ4_NL, "iq4_nl", 20, 32, 18},
    {DType::kIQ4_XS, "iq4_xs", 23, 256, 136},
}};

}  // namespace

const DTypeInfo& dtype_info(DType type) { return kInfos[static_cast<size_t>(type)]; }

std::optional<DType> dtype_from_ggml(uint32_t ggml_type) {
  for (const DTypeInfo& info : kInfos) {
    if (static_cast<uint32_t>(info.ggml_type) == ggml_type) return info.type;
  }
  return std::nullopt;
}

Result<DType> dtype_from_name(std::string_view name) {
  std::string known;
  for (const DTypeInfo& info : kInfos) {
    if (name.size() == std::string_view(info.name).size() && strncasecmp(name.data(), info.name, name.size()) == 0) {
      return info.type;
    }
    known += known.empty() ? info.name : std::string(", ") + info.name;
  }
  return make_error(ErrorCode::kInvalidArgument, "unknown type '{}'; known: {}", name, known);
}

}  // namespace dspark
