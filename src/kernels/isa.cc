// CPU detection for isa.h. Any thread.
#include "kernels/isa.h"

#include <cpuid.h>

namespace dspark {
namespace {

// clang 14 does not know "f16c" as a name. Asked once: in a virtual machine the question takes microseconds.
bool has_f16c() {
  static const bool found = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  }();
  return found;
}

}  // namespace

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

bool isa_supported(Isa isa) {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

Isa best_isa() {
  if (isa_supported(Isa::kAvx512)) return Isa::kAvx512;
  if (isa_supported(Isa::kAvx2)) return Isa::kAvx2;
  return Isa::kPortable;
}

Result<Isa> isa_from_name(std::string_view name) {
  if (name == "auto") return best_isa();
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (name != isa_name(isa)) continue;
    if (isa_supported(isa)) return isa;
    return make_error(ErrorCode::kUnsupported, "this CPU cannot run '{}' kernels; use --isa {}", name,
                      isa_name(best_isa()));
  }
  return make_error(ErrorCode::kInvalidArgument, "unknown instruction set '{}'; known: auto, portable, avx2, avx512",
                    name);
}

}  // namespace dspark
