// GgufMetadata: a GGUF file's key/value pairs as the tokenizer wants to read them. Const: any thread.
#pragma once

#include "model/gguf.h"
#include "text/tokenizer_spec.h"

namespace dspark {

class GgufMetadata final : public MetadataView {
 public:
  // `file` must outlive the view.
  explicit GgufMetadata(const GgufFile& file) : file_(file) {}

  bool contains(std::string_view key) const override { return file_.entry(key) != nullptr; }
  std::optional<std::string_view> get_string(std::string_view key) const override { return get<std::string_view>(key); }
  std::optional<int64_t> get_int(std::string_view key) const override { return get<int64_t>(key); }
  std::optional<bool> get_bool(std::string_view key) const override { return get<bool>(key); }
  std::optional<std::vector<std::string_view>> get_strings(std::string_view key) const override {
    return get<std::vector<std::string_view>>(key);
  }
  std::optional<std::vector<float>> get_floats(std::string_view key) const override {
    return get<std::vector<float>>(key);
  }
  std::optional<std::vector<int32_t>> get_ints(std::string_view key) const override {
    return get<std::vector<int32_t>>(key);
  }
  std::optional<std::string_view> get_bytes(std::string_view key) const override;

 private:
  template <class T>
  std::optional<T> get(std::string_view key) const {
    const GgufEntry* entry = file_.entry(key);
    if (entry == nullptr) return std::nullopt;
    auto value = read_gguf_value<T>(*entry, file_.path());
    if (!value.ok()) return std::nullopt;
    return std::move(value).value();
  }

  const GgufFile& file_;
};

}  // namespace dspark
