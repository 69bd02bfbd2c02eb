// Every weight format, in the order of DType: the one line that a new format adds here. Constant data.
#pragma once

#include "kernels/formats/format.h"

#define DSPARK_FORMATS(X) \
  X(F32)                  \
  X(F16)                  \
  X(BF16)                 \
  X(Q8_0)                 \
  X(Q4_0)                 \
  X(Q4_1)                 \
  X(Q5_0)                 \
  X(Q5_1)                 \
  X(Q2_K)                 \
  X(Q3_K)                 \
  X(Q4_K)                 \
  X(Q5_K)                 \
  X(Q6_K)                 \
  X(IQ4_NL)               \
  X(IQ4_XS)

namespace dspark {

#define DSPARK_DECLARE_FORMAT(name) extern const Format k##name##Format;
DSPARK_FORMATS(DSPARK_DECLARE_FORMAT)
#undef DSPARK_DECLARE_FORMAT

}  // namespace dspark
