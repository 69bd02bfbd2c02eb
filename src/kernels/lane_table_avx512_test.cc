// The table of lanes_test.h for AVX-512. Tests only.
#include "kernels/lanes_test.h"

#include "kernels/lanes_avx512.h"
#include "kernels/lanes_test.inl"

namespace dspark {

constexpr LaneTable kAvx512Lanes = {kOps, sizeof(kOps) / sizeof(kOps[0])};

}  // namespace dspark
