// GgufWriter: writes one GGUF version 3 file, its tensor data streamed, so that a file of many gigabytes needs little
// memory. One thread. Format: as in gguf.h.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/dtype.h"
#include "model/gguf_value.h"

namespace dspark {

// Use: set() and add_tensor() in any order, create(), write() until every tensor is complete, finish().
class GgufWriter {
 public:
  GgufWriter() = default;
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;
  // Removes what was written unless finish() succeeded.
  ~GgufWriter();

  // One metadata pair; each key once. T: bool, an integer of 8 to 64 bits, float, double or std::string_view.
  template <class T>
  void set(std::string_view key, T value);
  void set(std::string_view key, const char* text) { set(key, std::string_view(text)); }
  void set(std::string_view key, const std::string& text) { set(key, std::string_view(text)); }
  template <class T>
  void set_array(std::string_view key, std::span<const T> values);
  template <class T>
  void set_array(std::string_view key, const std::vector<T>& values) {
    set_array(key, std::span<const T>(values));
  }
  void set_array(std::string_view key, const std::vector<std::string>& texts);

  // A pair of another file, as it is.
  void copy(const GgufEntry& entry);

  // Of tensor data, a power of two from 8 on; 32 unless set. Also sets its metadata key.
  void set_alignment(uint32_t bytes);

  // The next tensor, of 1 to 4 dimensions, outermost first, whose rows are whole blocks of `type`.
  void add_tensor(std::string_view name, DType type, std::span<const int64_t> shape);

  // The next tensor, a vector of 64-bit integers (a map between vocabularies).
  void add_int64_tensor(std::string_view name, int64_t count);

  // Bytes that the file will have.
  uint64_t file_bytes() const;

  // Creates "PATH.part" with the header.
  Status create(const std::string& path);
  // The next bytes of tensor data: the tensors in the order they were added, each in any number of pieces, none
  // reaching into the next tensor.
  Status write(std::span<const uint8_t> bytes);
  // Requires all tensors complete; renames the file to its path.
  Status finish();

 private:
  struct Tensor {
    std::string name;
    int ggml_type;
    std::vector<int64_t> shape;
    uint64_t bytes;
  };

  void begin_pair(std::string_view key);
  void add(std::string_view name, int ggml_type, std::span<const int64_t> shape, int64_t bytes);
  std::string header() const;
  Status write_raw(std::span<const uint8_t> bytes);
  uint64_t padded(uint64_t bytes) const { return (bytes + alignment_ - 1) / alignment_ * alignment_; }

  uint32_t alignment_ = 32;
  std::string pairs_;  // serialised
  std::set<std::string, std::less<>> keys_;
  std::vector<Tensor> tensors_;
  std::set<std::string, std::less<>> names_;

  std::string path_;
  int fd_ = -1;
  size_t tensor_ = 0;     // that write() is filling
  uint64_t written_ = 0;  // of its bytes
};

}  // namespace dspark
