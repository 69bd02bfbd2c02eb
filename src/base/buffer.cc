// Allocation behind buffer.h. Any thread.
#include "base/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "base/check.h"

namespace dspark {

void* allocate_aligned(size_t count, size_t item_bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  size_t bytes = 0;
  void* pointer = nullptr;
  if (!__builtin_mul_overflow(count, item_bytes, &bytes) && bytes <= PTRDIFF_MAX - kHuge) {
    const size_t alignment = bytes >= 2 * kHuge ? kHuge : 64;
    const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
    pointer = std::aligned_alloc(alignment, rounded);
    // Advice only: ignored where huge pages are off.
    if (alignment == kHuge && pointer != nullptr) madvise(pointer, rounded, MADV_HUGEPAGE);
  }
  DSPARK_CHECK(pointer != nullptr, "out of memory: {} items of {} bytes", count, item_bytes);
  return pointer;
}

void free_aligned(void* pointer) { std::free(pointer); }

void advise_small_pages(void* begin, size_t bytes) { madvise(begin, bytes, MADV_NOHUGEPAGE); }

}  // namespace dspark
