// Register-only loops that measure what the execution units can do (kernel_bench.h). Each returns the multiply-adds
// it did; the result goes to `sink` so that it cannot be left out.
#pragma once

#include <cstdint>

namespace dspark {

struct PeakLoops {
  int64_t (*narrow)(int64_t rounds, int32_t* sink);
  int64_t (*wide)(int64_t rounds, int32_t* sink);
  int64_t (*floats)(int64_t rounds, int32_t* sink);
};
extern const PeakLoops kAvx2Peak;
extern const PeakLoops kAvx512Peak;

// Sum of `bytes` (a multiple of 512) by 256-bit loads.
int64_t sum_avx2(const uint8_t* data, int64_t bytes);

}  // namespace dspark
