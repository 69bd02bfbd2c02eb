// See arena.h.
#include "base/arena.h"

#include <algorithm>

namespace dspark {

uint8_t* Arena::allocate(size_t bytes) {
  const size_t rounded = (bytes + 63) / 64 * 64;
  if (chunks_.empty() || used_ + rounded > chunks_.back().capacity()) {
    chunks_.emplace_back(std::max(kChunkBytes, rounded));
    used_ = 0;
  }
  uint8_t* out = chunks_.back().data() + used_;
  used_ += rounded;
  return out;
}

}  // namespace dspark
