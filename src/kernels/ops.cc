// Chooses the table of ops.h. Any thread.
#include "kernels/ops.h"

namespace dspark {

const Ops& ops(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return kAvx512Ops;
    case Isa::kAvx2:
      return kAvx2Ops;
    case Isa::kPortable:
      return kPortableOps;
  }
  return kPortableOps;
}

}  // namespace dspark
