// GgufCursor: a bounds-checked walk over the header of a GGUF file, for gguf.cc. One thread.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/printable.h"
#include "base/result.h"
#include "model/gguf_value.h"
#include "model/tensor_source.h"

namespace dspark {

class GgufCursor {
 public:
  GgufCursor(std::span<const uint8_t> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return bytes_.size() - position_; }

  template <class T>
  Result<T> number(std::string_view what) {
    DSPARK_TRY(const auto bytes, take(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

  // A string behind its 64-bit length, from 1 (or 0, if `may_be_empty`) to max_bytes long.
  Result<std::string_view> string(std::string_view what, uint64_t max_bytes, bool may_be_empty) {
    DSPARK_TRY(const auto length, number<uint64_t>(what));
    if (length > max_bytes || (length == 0 && !may_be_empty)) {
      return make_error(ErrorCode::kCorrupt, "{}: {} at byte {} is {} bytes long, expected {} to {}; {}", file_, what,
                        position_ - sizeof(uint64_t), length, may_be_empty ? 0 : 1, max_bytes, kDamagedHint);
    }
    DSPARK_TRY(const auto bytes, take(length, what));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  Result<std::span<const uint8_t>> take(uint64_t count, std::string_view what) {
    if (count > left()) return truncated(what, count);
    const auto bytes = bytes_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  // `count` strings, each behind its length: the hot loop of large vocabularies.
  Result<std::span<const uint8_t>> strings(uint64_t count, std::string_view what) {
    const uint64_t begin = position_;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t length = 0;
      if (left() < sizeof(length)) return truncated(what, sizeof(length));
      std::memcpy(&length, bytes_.data() + position_, sizeof(length));
      position_ += sizeof(length);
      if (length > left()) return truncated(what, length);
      position_ += length;
    }
    return bytes_.subspan(begin, position_ - begin);
  }

 private:
  Error truncated(std::string_view what, uint64_t needed) const {
    return make_error(ErrorCode::kCorrupt, "{}: truncated in {}: needs {} bytes at byte {}, found {}; {}", file_, what,
                      needed, position_, left(), kDamagedHint);
  }

  std::span<const uint8_t> bytes_;
  std::string_view file_;
  uint64_t position_ = 0;
};

}  // namespace dspark
