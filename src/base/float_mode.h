// FloatMode: rounding to nearest even and subnormals kept, as the kernels' bits need it (docs/numerics.md), while it
// lives; then the thread has its old mode again. One per scope and thread. ThreadPool::run() holds one around its
// tasks; whoever calls kernels elsewhere holds one there.
#pragma once

#include <immintrin.h>

namespace dspark {

class FloatMode {
 public:
  FloatMode() : before_(_mm_getcsr()) {
    if ((before_ & ~kStickyFlags) != kDefault) _mm_setcsr(kDefault);
  }
  ~FloatMode() {
    if ((before_ & ~kStickyFlags) != kDefault) _mm_setcsr(before_);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1F80;  // all exceptions masked
  static constexpr unsigned kStickyFlags = 0x3F;
  unsigned before_;
};

}  // namespace dspark
