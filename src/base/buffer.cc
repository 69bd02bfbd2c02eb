// Allocation behind buffer.h. Any thread.
#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/check.h"

namespace dspark {

void* allocate_aligned(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  const size_t alignment = bytes >= 2 * kHuge ? kHuge : 64;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* pointer = std::aligned_alloc(alignment, rounded);
  DSPARK_CHECK(pointer != nullptr, "out of memory: {} bytes", bytes);
  if (alignment == kHuge) madvise(pointer, rounded, MADV_HUGEPAGE);  // advice only: ignored where it is off
  return pointer;
}

void free_aligned(void* pointer) { std::free(pointer); }

}  // namespace dspark
