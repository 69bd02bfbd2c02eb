// See block_pool.h.
#include "kvcache/block_pool.h"

namespace dspark {

Result<uint8_t*> BlockPool::acquire() {
  if (!free_.empty()) {
    uint8_t* block = free_.back();
    free_.pop_back();
    return block;
  }
  if (made_ >= max_blocks_) {
    return make_error(ErrorCode::kExhausted, "all {} KV blocks of {} bytes are in use; shorten the context",
                      max_blocks_, block_bytes_);
  }
  ++made_;
  return arena_.allocate(static_cast<size_t>(block_bytes_));
}

}  // namespace dspark
