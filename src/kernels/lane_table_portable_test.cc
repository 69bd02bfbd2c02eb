// The table of lanes_test.h for plain C++. Tests only.
#include "kernels/lanes_test.h"

#include "kernels/lanes_portable.h"
#include "kernels/lanes_test.inl"

namespace dspark {

constexpr LaneTable kPortableLanes = {kOps, sizeof(kOps) / sizeof(kOps[0])};

}  // namespace dspark
