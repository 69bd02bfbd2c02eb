// The table of lanes_test.h for AVX2. Tests only.
#include "kernels/lanes_test.h"

#include "kernels/lanes_avx2.h"
#include "kernels/lanes_test.inl"

namespace dspark {

constexpr LaneTable kAvx2Lanes = {kOps, sizeof(kOps) / sizeof(kOps[0])};

}  // namespace dspark
