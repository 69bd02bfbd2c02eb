// See row_type.h.
#include "model/row_type.h"

namespace dspark {

std::optional<DType> type_for_rows(DType wanted, int64_t k) {
  const auto divides = [k](DType type) { return k % dtype_info(type).block_elements == 0; };
  if (divides(wanted)) return wanted;
  DType fallback = wanted;
  switch (wanted) {
    case DType::kQ2_K:
    case DType::kQ3_K:
      fallback = DType::kQ4_0;
      break;
    case DType::kQ4_K:
      fallback = DType::kQ5_0;
      break;
    case DType::kQ5_K:
      fallback = DType::kQ5_1;
      break;
    case DType::kQ6_K:
      fallback = DType::kQ8_0;
      break;
    case DType::kIQ4_XS:
      fallback = DType::kIQ4_NL;
      break;
    default:
      break;
  }
  return divides(fallback) ? std::optional(fallback) : std::nullopt;
}

}  // namespace dspark
