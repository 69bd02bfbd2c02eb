// Arena: long-lived memory on huge pages, given out piece by piece and freed all at once. Decoding reads every weight
// once a step: with small pages the translation of addresses and the prefetchers, which stop at a page's end, cost a
// fifth of the speed. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/buffer.h"

namespace dspark {

class Arena {
 public:
  // 64-byte aligned, undefined contents; lives as long as the arena.
  uint8_t* allocate(size_t bytes);

 private:
  static constexpr size_t kChunkBytes = size_t{32} << 20;
  std::vector<Buffer<uint8_t>> chunks_;
  size_t used_ = 0;  // of the last chunk
};

}  // namespace dspark
