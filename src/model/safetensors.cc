// Parsing and checking behind safetensors.h.
#include "model/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/printable.h"

namespace dspark {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
// The header's object, and for each tensor name, dtype, shape with dimensions, offsets; some 500,000 tensors.
constexpr JsonLimits kHeaderLimits = {.max_bytes = kMaxHeaderBytes, .max_depth = 4, .max_values = 8'000'000};

struct SafetensorsType {
  const char* name;
  std::optional<DType> type;
  uint64_t bytes;
};
constexpr SafetensorsType kTypes[] = {
    {"F32", DType::kF32, 4},   {"F16", DType::kF16, 2},      {"BF16", DType::kBF16, 2},    {"F64", std::nullopt, 8},
    {"I64", std::nullopt, 8},  {"U64", std::nullopt, 8},     {"I32", std::nullopt, 4},     {"U32", std::nullopt, 4},
    {"I16", std::nullopt, 2},  {"U16", std::nullopt, 2},     {"I8", std::nullopt, 1},      {"U8", std::nullopt, 1},
    {"BOOL", std::nullopt, 1}, {"F8_E4M3", std::nullopt, 1}, {"F8_E5M2", std::nullopt, 1}, {"F8_E8M0", std::nullopt, 1},
};

Error corrupt(std::string_view file, const std::string& what) {
  return make_error(ErrorCode::kCorrupt, "{}: {}; {}", file, what, kDamagedHint);
}

// The error of a member of tensor `name`, whose messages should name both.
std::string in_tensor(std::string_view file, std::string_view name) {
  return fmt::format("{}: tensor {}", file, quote(name));
}

// Bytes that shape and type ask for, or nothing if they overflow.
std::optional<uint64_t> needed_bytes(const TensorInfo& tensor, uint64_t element_bytes) {
  uint64_t bytes = element_bytes;
  for (int i = 0; i < tensor.rank; ++i) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(tensor.shape[i]), &bytes)) return std::nullopt;
  }
  if (bytes > uint64_t{1} << 62) return std::nullopt;
  return bytes;
}

Status set_shape(TensorInfo& tensor, const json& value, std::string_view file) {
  DSPARK_TRY(const auto shape, json_require<std::vector<int64_t>>(value, "shape", in_tensor(file, tensor.name)));
  if (shape.size() > kMaxTensorRank) {
    return corrupt(file, fmt::format("tensor {} has {} dimensions, expected at most {}", quote(tensor.name),
                                     shape.size(), kMaxTensorRank));
  }
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) {
    return corrupt(file, fmt::format("tensor {} has shape {}, expected no negative dimension", quote(tensor.name),
                                     format_shape(shape)));
  }
  tensor.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), tensor.shape.begin());
  return Ok{};
}

Result<TensorInfo> parse_tensor(const std::string& name, const json& value, std::span<const uint8_t> data,
                                std::string_view file) {
  TensorInfo tensor;
  tensor.name = name;
  DSPARK_RETURN_IF_ERROR(set_shape(tensor, value, file));
  DSPARK_TRY(tensor.type_name, json_require<std::string>(value, "dtype", in_tensor(file, name)));
  DSPARK_TRY(const auto range, json_require<std::vector<uint64_t>>(value, "data_offsets", in_tensor(file, name)));
  if (range.size() != 2 || range[0] > range[1] || range[1] > data.size()) {
    return corrupt(file, fmt::format("tensor {} has data_offsets [{}], expected [begin, end] within {} bytes of data",
                                     quote(name), fmt::join(range, ", "), data.size()));
  }
  tensor.data = data.data() + range[0];
  tensor.bytes = range[1] - range[0];
  const auto known = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const SafetensorsType& type) { return type.name == tensor.type_name; });
  if (known == std::end(kTypes)) return tensor;
  const auto needed = needed_bytes(tensor, known->bytes);
  if (!needed || *needed != tensor.bytes) {
    return corrupt(file, fmt::format("tensor {} has {} bytes of data, expected {} for {} {}", quote(name), tensor.bytes,
                                     needed ? fmt::format("{}", *needed) : "fewer than 2^62", known->name,
                                     format_shape({tensor.shape.data(), static_cast<size_t>(tensor.rank)})));
  }
  tensor.type = known->type;
  if (tensor.type) tensor.type_name = dtype_info(*tensor.type).name;
  return tensor;
}

// Sorts by place and checks that the tensors fill the buffer without hole or overlap, as the format asks.
Status check_layout(std::vector<TensorInfo>& tensors, std::span<const uint8_t> data, std::string_view file) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.data, a.bytes, a.name) < std::tie(b.data, b.bytes, b.name);
  });
  const uint8_t* end = data.data();
  for (const TensorInfo& tensor : tensors) {
    if (tensor.data != end) {
      return corrupt(file,
                     fmt::format("tensor {} begins at byte {} of the data, expected {} where the one before it ends",
                                 quote(tensor.name), tensor.data - data.data(), end - data.data()));
    }
    end += tensor.bytes;
  }
  const auto used = static_cast<uint64_t>(end - data.data());
  if (used != data.size()) {
    return corrupt(file, fmt::format("{} bytes of data, expected {} by the tensors in the header", data.size(), used));
  }
  return Ok{};
}

bool is_plain_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".safetensors";
  return name.size() > kSuffix.size() && name.size() <= 255 && name.ends_with(kSuffix) && name.front() != '.' &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace

Result<std::vector<TensorInfo>> parse_safetensors(std::span<const uint8_t> bytes, std::string_view file) {
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) {
    return corrupt(file, fmt::format("{} bytes, expected at least the 8 of the header's length", bytes.size()));
  }
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const uint64_t most = std::min<uint64_t>(bytes.size() - sizeof(header_bytes), kMaxHeaderBytes);
  if (header_bytes > most) {
    return corrupt(file, fmt::format("header of {} bytes, expected at most {}", header_bytes, most));
  }
  const auto data = bytes.subspan(sizeof(header_bytes) + header_bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(header_bytes), header_bytes);
  DSPARK_TRY(const json header, parse_json(text, file, kHeaderLimits));
  if (!header.is_object()) return corrupt(file, "the header is no JSON object, expected one entry for each tensor");
  std::vector<TensorInfo> tensors;
  tensors.reserve(header.size());
  for (const auto& [name, value] : header.get_ref<const json::object_t&>()) {
    if (name == "__metadata__") continue;
    DSPARK_TRY(auto tensor, parse_tensor(name, value, data, file));
    tensors.push_back(std::move(tensor));
  }
  DSPARK_RETURN_IF_ERROR(check_layout(tensors, data, file));
  return tensors;
}

Result<std::vector<ShardEntry>> parse_safetensors_index(std::string_view text, std::string_view file) {
  DSPARK_TRY(const json index, parse_json(text, file, kHeaderLimits));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object()) {
    return corrupt(file, "key 'weight_map' is missing or no object, expected tensor names with their files");
  }
  std::vector<ShardEntry> entries;
  entries.reserve(map->size());
  for (const auto& [tensor, value] : map->get_ref<const json::object_t&>()) {
    DSPARK_TRY(auto shard, json_require<std::string>(*map, tensor, file));
    if (!is_plain_name(shard)) {
      return corrupt(file, fmt::format("tensor {} is in file {}, expected a plain name ending in .safetensors",
                                       quote(tensor), quote(shard)));
    }
    entries.push_back({tensor, std::move(shard)});
  }
  std::sort(entries.begin(), entries.end(), [](const ShardEntry& a, const ShardEntry& b) {
    return std::tie(a.file, a.tensor) < std::tie(b.file, b.tensor);
  });
  return entries;
}

}  // namespace dspark
