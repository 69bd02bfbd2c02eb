// TensorSource: the named tensors of a model file or folder, as views into mapped memory. Filled by one reader, then
// const: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mmap.h"
#include "base/result.h"
#include "kernels/dtype.h"

namespace dspark {

// A tensor that this build can use. Shapes are row-major, outermost dimension first, in every file format: a matrix
// y = W x has shape[0] = rows (outputs) and shape[1] = k (inputs), a vector has rank 1, stacked experts are
// {expert, row, k}. Rows are contiguous along k in the file layout of `type`.
struct TensorView {
  std::string_view name;  // valid as long as the source
  DType type = DType::kF32;
  int rank = 0;                                 // 1 to 4
  std::array<int64_t, 4> shape = {1, 1, 1, 1};  // dimensions from `rank` on are 1
  // `bytes` bytes. Never assume an alignment: safetensors has none, so read elements with memcpy or unaligned loads.
  const uint8_t* data = nullptr;
  size_t bytes = 0;

  int64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
};

inline constexpr int kMaxTensorRank = 8;

// A tensor as the file describes it, also of a type or rank that this build cannot use (`inspect` lists them all).
struct TensorInfo {
  std::string name;
  std::string type_name;      // "q4_k", "iq2_xxs", "I64", "unknown(77)"
  std::optional<DType> type;  // nothing: refused when used
  int rank = 0;
  std::array<int64_t, kMaxTensorRank> shape = {1, 1, 1, 1, 1, 1, 1, 1};  // outermost first
  const uint8_t* data = nullptr;
  uint64_t bytes = 0;  // 0 for a type of unknown size
  uint32_t file = 0;   // index into the source's files
};

class TensorSource {
 public:
  TensorSource(TensorSource&&) noexcept = default;
  TensorSource& operator=(TensorSource&&) noexcept = default;
  virtual ~TensorSource() = default;

  // The path that was opened, for messages.
  const std::string& path() const { return path_; }
  // Every tensor, in file order.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  bool contains(std::string_view name) const { return info(name) != nullptr; }
  // Nothing if there is no such tensor.
  const TensorInfo* info(std::string_view name) const;

  // kNotFound for an unknown name, kUnsupported for a type, rank or emptiness that no kernel takes.
  Result<TensorView> find(std::string_view name) const;
  // The same, and kCorrupt unless its shape is `shape`.
  Result<TensorView> find(std::string_view name, std::initializer_list<int64_t> shape) const;

  // Drops the tensor's resident file pages, for instance once its weights are packed. The view stays valid: pages are
  // read again when touched.
  void release(const TensorView& view) const;
  // Drops all resident pages of the files, metadata included.
  void release_all() const;

  // Every file that makes the model what it is (weights, parameters, tokenizer), in a fixed order; empty when the bytes
  // belong to the caller.
  virtual std::vector<const MappedFile*> identity_files() const;

  // Bytes of the tensors' files together.
  uint64_t file_bytes() const;

 protected:
  explicit TensorSource(std::string path) : path_(std::move(path)) {}

  // Takes the tensors and builds the index; kCorrupt if a name stands twice.
  Status set_tensors(std::vector<TensorInfo> tensors);
  // Name of file `index` for messages.
  const std::string& file_name(uint32_t index) const { return file_names_[index]; }

  std::string path_;
  std::vector<MappedFile> files_;        // empty when the bytes belong to the caller
  std::vector<std::string> file_names_;  // one for each value of TensorInfo::file

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_, sorted by name
};

// "[49152, 576]".
std::string format_shape(std::span<const int64_t> shape);

// kCorrupt if two tensors of `file` share bytes; those without size or data count as empty.
Status check_no_overlap(std::span<const TensorInfo> tensors, std::string_view file);

// The hint at the end of messages about broken files.
inline constexpr const char* kDamagedHint = "the file is damaged or incomplete, fetch it again";

}  // namespace dspark
