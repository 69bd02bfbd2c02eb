// Types of matrices whose rows are no whole blocks of the type asked for. Pure, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/dtype.h"

namespace dspark {

// `wanted` where rows of k elements are whole blocks of it, else the type to which llama-quantize falls back; nothing
// where that does not fit either.
std::optional<DType> type_for_rows(DType wanted, int64_t k);

}  // namespace dspark
