// Conversion and text form of metadata values (gguf_value.h).
#include "model/gguf_value.h"

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/printable.h"

namespace dspark {
namespace {

template <class T>
constexpr bool kIsVector = false;
template <class T>
constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
T load(const uint8_t* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Calls visit(value) with the number at `data` in its own C++ type.
template <class Visit>
auto visit_number(GgufType type, const uint8_t* data, Visit&& visit) {
  switch (type) {
    case GgufType::kU8:
      return visit(load<uint8_t>(data));
    case GgufType::kI8:
      return visit(load<int8_t>(data));
    case GgufType::kU16:
      return visit(load<uint16_t>(data));
    case GgufType::kI16:
      return visit(load<int16_t>(data));
    case GgufType::kU32:
      return visit(load<uint32_t>(data));
    case GgufType::kI32:
      return visit(load<int32_t>(data));
    case GgufType::kF32:
      return visit(load<float>(data));
    case GgufType::kU64:
      return visit(load<uint64_t>(data));
    case GgufType::kI64:
      return visit(load<int64_t>(data));
    case GgufType::kF64:
      return visit(load<double>(data));
    case GgufType::kBool:
      return visit(*data != 0);
    case GgufType::kString:
    case GgufType::kArray:
      break;
  }
  check_failed(__FILE__, __LINE__, "a number", fmt::format("type {}", static_cast<uint32_t>(type)));
}

// The number as a To if that loses nothing (f64 to f32 may round).
template <class To>
bool convert(GgufType type, const uint8_t* data, To& out) {
  return visit_number(type, data, [&](auto value) {
    using From = decltype(value);
    if constexpr (std::is_same_v<From, bool> || std::is_same_v<To, bool>) {
      if constexpr (!std::is_same_v<From, To>) return false;
    } else if constexpr (std::is_floating_point_v<From> != std::is_floating_point_v<To>) {
      return false;
    } else if constexpr (std::is_integral_v<From>) {
      if (!std::in_range<To>(value)) return false;
    }
    out = static_cast<To>(value);
    return true;
  });
}

std::string_view next_string(const uint8_t*& data) {
  const auto length = load<uint64_t>(data);
  const std::string_view text(reinterpret_cast<const char*>(data) + sizeof(uint64_t), length);
  data += sizeof(uint64_t) + length;
  return text;
}

template <class T>
std::string expected_name() {
  if constexpr (kIsVector<T>) {
    return fmt::format("an array, each {}", expected_name<typename T::value_type>());
  } else if constexpr (std::is_same_v<T, bool>) {
    return "a bool";
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return "a string";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "a finite f32 or f64";
  } else {
    return fmt::format("an integer from {} to {}", std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  }
}

template <class T>
bool read_elements(const GgufEntry& entry, std::vector<T>& out) {
  if (entry.type != GgufType::kArray || (entry.element == GgufType::kString) != std::is_same_v<T, std::string_view>) {
    return false;
  }
  out.reserve(entry.count);
  const uint8_t* data = entry.data.data();
  for (uint64_t i = 0; i < entry.count; ++i) {
    if constexpr (std::is_same_v<T, std::string_view>) {
      out.push_back(next_string(data));
    } else {
      T value{};
      if (!convert(entry.element, data, value)) return false;
      out.push_back(value);
      data += gguf_scalar_bytes(entry.element);
    }
  }
  return true;
}

template <class T>
bool read(const GgufEntry& entry, T& out) {
  if constexpr (kIsVector<T>) {
    return read_elements(entry, out);
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    if (entry.type != GgufType::kString) return false;
    const uint8_t* data = entry.data.data();
    out = next_string(data);
    return true;
  } else {
    if (entry.type == GgufType::kString || entry.type == GgufType::kArray) return false;
    if (!convert(entry.type, entry.data.data(), out)) return false;
    if constexpr (std::is_floating_point_v<T>) return std::isfinite(out);
    return true;
  }
}

}  // namespace

const char* gguf_type_name(GgufType type) {
  static constexpr const char* kNames[kGgufTypeCount] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<uint32_t>(type)];
}

size_t gguf_scalar_bytes(GgufType type) {
  static constexpr uint8_t kBytes[kGgufTypeCount] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes[static_cast<uint32_t>(type)];
}

template <class T>
Result<T> read_gguf_value(const GgufEntry& entry, std::string_view file) {
  T out{};
  if (read(entry, out)) return out;
  const std::string type = entry.type == GgufType::kArray ? fmt::format("array of {}", gguf_type_name(entry.element))
                                                          : gguf_type_name(entry.type);
  return make_error(ErrorCode::kCorrupt, "{}: metadata key {} is {} ({}), expected {}", file, quote(entry.key),
                    format_gguf_value(entry, 4, 40), type, expected_name<T>());
}

std::string format_gguf_value(const GgufEntry& entry, size_t max_elements, size_t max_text) {
  const bool array = entry.type == GgufType::kArray;
  std::string out = array ? "[" : "";
  const uint8_t* data = entry.data.data();
  const uint64_t shown = entry.count < max_elements ? entry.count : max_elements;
  for (uint64_t i = 0; i < (array ? shown : 1); ++i) {
    if (i > 0) out += ", ";
    if (entry.element == GgufType::kString) {
      out += quote(next_string(data), max_text);
    } else {
      out += visit_number(entry.element, data, [](auto value) { return fmt::format("{}", value); });
      data += gguf_scalar_bytes(entry.element);
    }
  }
  if (!array) return out;
  if (shown < entry.count) out += shown > 0 ? ", ..." : "...";
  return out + "]";
}

template Result<bool> read_gguf_value(const GgufEntry&, std::string_view);
template Result<int32_t> read_gguf_value(const GgufEntry&, std::string_view);
template Result<uint32_t> read_gguf_value(const GgufEntry&, std::string_view);
template Result<int64_t> read_gguf_value(const GgufEntry&, std::string_view);
template Result<uint64_t> read_gguf_value(const GgufEntry&, std::string_view);
template Result<float> read_gguf_value(const GgufEntry&, std::string_view);
template Result<double> read_gguf_value(const GgufEntry&, std::string_view);
template Result<std::string_view> read_gguf_value(const GgufEntry&, std::string_view);
template Result<std::vector<bool>> read_gguf_value(const GgufEntry&, std::string_view);
template Result<std::vector<int32_t>> read_gguf_value(const GgufEntry&, std::string_view);
template Result<std::vector<uint32_t>> read_gguf_value(const GgufEntry&, std::string_view);
template Result<std::vector<int64_t>> read_gguf_value(const GgufEntry&, std::string_view);
template Result<std::vector<float>> read_gguf_value(const GgufEntry&, std::string_view);
template Result<std::vector<std::string_view>> read_gguf_value(const GgufEntry&, std::string_view);

}  // namespace dspark
