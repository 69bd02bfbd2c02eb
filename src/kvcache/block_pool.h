// BlockPool: the memory of all KV blocks, 128 positions of every layer each. Blocks are made on demand up to a limit
// and kept for reuse. Owned by the engine; the thread that runs the step loop.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arena.h"
#include "base/result.h"

namespace dspark {

class BlockPool {
 public:
  BlockPool(int64_t block_bytes, int64_t max_blocks) : block_bytes_(block_bytes), max_blocks_(max_blocks) {}

  // A block with undefined contents; kExhausted when all are in use.
  Result<uint8_t*> acquire();
  void release(uint8_t* block) { free_.push_back(block); }

  int64_t block_bytes() const { return block_bytes_; }
  int64_t used() const { return made_ - static_cast<int64_t>(free_.size()); }
  int64_t limit() const { return max_blocks_; }

 private:
  int64_t block_bytes_;
  int64_t max_blocks_;
  int64_t made_ = 0;
  Arena arena_;
  std::vector<uint8_t*> free_;
};

}  // namespace dspark
