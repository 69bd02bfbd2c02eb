// Buffer<T>: 64-byte aligned scratch memory that only grows; its contents are undefined after growing.
// Large buffers ask for huge pages. One owner at a time.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace dspark {

// Aligned to 64 bytes (2 MiB and advised as huge pages from 4 MiB on); ends the process when memory is exhausted.
void* allocate_aligned(size_t count, size_t item_bytes);
void free_aligned(void* pointer);

// Takes the advice back for whole pages of untouched memory: what of it is used is resident, and no more.
void advise_small_pages(void* begin, size_t bytes);

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64);

 public:
  Buffer() = default;
  explicit Buffer(size_t count) { ensure(count); }
  ~Buffer() { free_aligned(data_); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  // Room for at least `count` items; the old ones are kept only if there was room already.
  void ensure(size_t count) {
    if (count <= capacity_) return;
    free_aligned(data_);
    data_ = static_cast<T*>(allocate_aligned(count, sizeof(T)));
    capacity_ = count;
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return capacity_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace dspark
