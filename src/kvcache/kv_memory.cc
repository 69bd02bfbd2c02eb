// See kv_memory.h.
#include "kvcache/kv_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace dspark {
namespace {

// Large enough for huge pages and few system calls, small enough to grow in steps.
constexpr int64_t kChunkBytes = int64_t{32} << 20;
constexpr int64_t kMaxChunkBlocks = 1024;
// Of the first chunk, without huge pages: the last one of a short chat would be half of its KV, and empty.
constexpr size_t kSmallPagesBytes = size_t{4} << 20;

}  // namespace

KvMemory::KvMemory(int64_t block_bytes, int64_t capacity, int64_t preallocated)
    : block_bytes_(block_bytes),
      capacity_(capacity),
      chunk_blocks_(std::clamp(kChunkBytes / block_bytes, int64_t{1}, std::min(kMaxChunkBlocks, capacity))),
      chunks_(static_cast<size_t>((capacity + chunk_blocks_ - 1) / chunk_blocks_)) {
  for (int64_t chunk = 0; chunk * chunk_blocks_ < preallocated; ++chunk) {
    take_chunk(chunk);
    std::memset(chunks_[chunk].bytes.data(), 0, chunks_[chunk].bytes.capacity());
  }
}

void KvMemory::take_chunk(int64_t number) {
  const int64_t first = number * chunk_blocks_;
  const int64_t count = std::min(chunk_blocks_, capacity_ - first);
  Chunk& chunk = chunks_[number];
  chunk.bytes.ensure(static_cast<size_t>(count * block_bytes_));
  if (number == 0 && chunk.bytes.capacity() >= kSmallPagesBytes)
    advise_small_pages(chunk.bytes.data(), kSmallPagesBytes);
  chunk.blocks = std::make_unique<KvBlock[]>(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    chunk.blocks[i].data = chunk.bytes.data() + i * block_bytes_;
    chunk.blocks[i].id = first + i;
  }
  bytes_taken_.fetch_add(count * block_bytes_, std::memory_order_relaxed);
}

void KvMemory::release_above(int64_t id) {
  constexpr uintptr_t kPage = 4096;
  for (int64_t chunk = id / chunk_blocks_; chunk * chunk_blocks_ < grown(); ++chunk) {
    Buffer<uint8_t>& bytes = chunks_[chunk].bytes;
    const int64_t first = std::max(int64_t{0}, id - chunk * chunk_blocks_);
    const auto begin = (reinterpret_cast<uintptr_t>(bytes.data() + first * block_bytes_) + kPage - 1) & ~(kPage - 1);
    const auto end = reinterpret_cast<uintptr_t>(bytes.data() + bytes.capacity()) & ~(kPage - 1);
    // Where the system does not take them, they stay.
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

KvBlock* KvMemory::grow() {
  if (grown() == capacity_) return nullptr;
  const auto held = lock();
  return grow_locked();
}

KvBlock* KvMemory::grow_locked() {
  const int64_t id = grown_.load(std::memory_order_relaxed);
  if (id == capacity_) return nullptr;
  if (chunks_[id / chunk_blocks_].bytes.empty()) take_chunk(id / chunk_blocks_);
  KvBlock* out = &block(id);
  out->refs = 1;
  grown_.store(id + 1, std::memory_order_release);
  return out;
}

}  // namespace dspark
