// GgufFile: a GGUF model file (versions 2 and 3, one file or split), checked whole when opened: metadata by key and
// tensors by name, all views into mapped memory. Const after opening: any thread.
// Format: the GGUF specification in the ggml repository (docs/gguf.md); split files as llama-gguf-split writes them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/gguf_value.h"
#include "model/tensor_source.h"

namespace dspark {

class GgufFile : public TensorSource {
 public:
  // Opens `path`, and with it, if it is any part "X-00002-of-00005.gguf" of a split model, all parts beside it.
  static Result<GgufFile> open(const std::string& path);
  // Parses one unsplit file in memory that the caller keeps; `name` stands for the path in messages.
  static Result<GgufFile> parse(std::span<const uint8_t> bytes, std::string name);

  uint32_t version() const { return version_; }
  // Of the tensor data, in bytes.
  uint32_t alignment() const { return alignment_; }
  // The first part's pairs, in file order.
  std::span<const GgufEntry> metadata() const { return metadata_; }
  // Nothing if there is no such key.
  const GgufEntry* entry(std::string_view key) const;

  // The value of `key` as a T (the types of read_gguf_value); kCorrupt if it is missing or no T.
  template <class T>
  Result<T> require(std::string_view key) const {
    const GgufEntry* found = entry(key);
    if (found == nullptr) return missing(key);
    return read_gguf_value<T>(*found, path());
  }
  // `fallback` if the key is missing; a value of a wrong type is an error all the same.
  template <class T>
  Result<T> get_or(std::string_view key, T fallback) const {
    const GgufEntry* found = entry(key);
    if (found == nullptr) return fallback;
    return read_gguf_value<T>(*found, path());
  }
  // A parameter that is one value for all layers or an array with one for each: always `layers` values.
  template <class T>
  Result<std::vector<T>> require_per_layer(std::string_view key, size_t layers) const {
    const GgufEntry* found = entry(key);
    if (found == nullptr) return missing(key);
    if (found->type != GgufType::kArray) {
      DSPARK_TRY(const T value, read_gguf_value<T>(*found, path()));
      return std::vector<T>(layers, value);
    }
    if (found->count != layers) return wrong_count(*found, layers);
    return read_gguf_value<std::vector<T>>(*found, path());
  }

 private:
  explicit GgufFile(std::string path) : TensorSource(std::move(path)) {}
  struct Part;
  static Result<Part> parse_part(std::span<const uint8_t> bytes, const std::string& name);
  static Result<std::vector<std::string>> part_paths(const Part& part, const std::string& path);
  static Status check_part(const Part& part, const Part& first, size_t index, size_t count, const std::string& name);
  Status take(std::vector<Part> parts);
  Error missing(std::string_view key) const;
  Error wrong_count(const GgufEntry& entry, size_t layers) const;

  uint32_t version_ = 0;
  uint32_t alignment_ = 0;
  std::vector<GgufEntry> metadata_;
  std::vector<uint32_t> by_key_;  // indices into metadata_, sorted by key
};

}  // namespace dspark
