// KvMemory: the memory of KV blocks, taken from the system in chunks as it is needed, up to a limit. Blocks never move
// or go back while it lives. Any thread.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/buffer.h"
#include "kvcache/kv_block.h"

namespace dspark {

class KvMemory {
 public:
  // The first `preallocated` blocks' memory is taken and touched now.
  KvMemory(int64_t block_bytes, int64_t capacity, int64_t preallocated);

  // A block that was never used before, private and held once; nullptr when there are none.
  KvBlock* grow();

  int64_t capacity() const { return capacity_; }
  int64_t grown() const { return grown_.load(std::memory_order_acquire); }
  int64_t bytes_taken() const { return bytes_taken_.load(std::memory_order_relaxed); }

  // While it is held, no block comes into use for the first time.
  std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
  // Block number `id` of the grown() ones, in the order of addresses within a chunk.
  KvBlock& block(int64_t id) const { return chunks_[id / chunk_blocks_].blocks[id % chunk_blocks_]; }
  // The pages of blocks from number `id` on, which hold nothing, go back to the system until they are written again.
  // With lock() held.
  void release_above(int64_t id);
  // grow() with lock() held.
  KvBlock* grow_locked();

 private:
  struct Chunk {
    Buffer<uint8_t> bytes;
    std::unique_ptr<KvBlock[]> blocks;
  };
  void take_chunk(int64_t number);

  const int64_t block_bytes_;
  const int64_t capacity_;
  const int64_t chunk_blocks_;
  mutable std::mutex mutex_;
  std::vector<Chunk> chunks_;  // all of them from the start, empty until taken
  std::atomic<int64_t> grown_ = 0;
  std::atomic<int64_t> bytes_taken_ = 0;
};

}  // namespace dspark
