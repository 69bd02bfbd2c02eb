// Which instruction set the kernels use: found once at start, or forced with --isa. Any thread.
#pragma once

#include <string_view>

#include "base/result.h"

namespace dspark {

enum class Isa { kPortable, kAvx2, kAvx512 };

const char* isa_name(Isa isa);

// True if this CPU (and its operating system) can run kernels of `isa`.
bool isa_supported(Isa isa);

// The fastest supported one.
Isa best_isa();

// "auto", "portable", "avx2" or "avx512"; an error if the name is unknown or this CPU lacks it.
Result<Isa> isa_from_name(std::string_view name);

}  // namespace dspark
