// Parsing and checking of GGUF files (gguf.h). Nothing here trusts a length, count, offset or type before it is checked
// against the bytes that are there.
#include "model/gguf.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "model/gguf_cursor.h"
#include "model/split_name.h"

namespace dspark {
namespace {

constexpr uint32_t kDefaultAlignment = 32;
constexpr uint64_t kMaxKeyBytes = 65535;  // of the specification
constexpr uint64_t kMaxNameBytes = 1024;
constexpr uint64_t kMaxEntries = 1 << 20;  // tensors or keys; real files have some thousands
constexpr uint32_t kMaxGgufRank = 4;

// Types that files may hold but no kernel takes: known by name and size, so that offsets can be checked and listed.
struct ForeignType {
  uint32_t ggml_type;
  const char* name;
  uint32_t block_elements;
  uint32_t block_bytes;
};
constexpr ForeignType kForeignTypes[] = {
    {15, "q8_k", 256, 292}, {16, "iq2_xxs", 256, 66}, {17, "iq2_xs", 256, 74}, {18, "iq3_xxs", 256, 98},
    {19, "iq1_s", 256, 50}, {21, "iq3_s", 256, 110},  {22, "iq2_s", 256, 82},  {24, "i8", 1, 1},
    {25, "i16", 1, 2},      {26, "i32", 1, 4},        {27, "i64", 1, 8},       {28, "f64", 1, 8},
    {29, "iq1_m", 256, 56}, {34, "tq1_0", 256, 54},   {35, "tq2_0", 256, 66},  {39, "mxfp4", 32, 17},
    {40, "nvfp4", 64, 36},  {41, "q1_0", 128, 18},
};

Error corrupt(std::string_view file, const std::string& what) {
  return make_error(ErrorCode::kCorrupt, "{}: {}; {}", file, what, kDamagedHint);
}

// Fills type, type_name and bytes from the number of the type and the shape; unknown types keep 0 bytes.
Status set_type(TensorInfo& tensor, uint32_t ggml_type, std::string_view file) {
  uint64_t block_elements = 0;
  uint64_t block_bytes = 0;
  tensor.type = dtype_from_ggml(ggml_type);
  tensor.type_name = fmt::format("unknown({})", ggml_type);
  if (tensor.type) {
    const DTypeInfo& info = dtype_info(*tensor.type);
    tensor.type_name = info.name;
    block_elements = static_cast<uint64_t>(info.block_elements);
    block_bytes = static_cast<uint64_t>(info.block_bytes);
  }
  for (const ForeignType& foreign : kForeignTypes) {
    if (foreign.ggml_type != ggml_type) continue;
    tensor.type_name = foreign.name;
    block_elements = foreign.block_elements;
    block_bytes = foreign.block_bytes;
  }
  uint64_t elements = 1;
  bool too_many = false;
  for (int i = 0; i < tensor.rank; ++i) {
    too_many |= __builtin_mul_overflow(elements, static_cast<uint64_t>(tensor.shape[i]), &elements);
  }
  const std::span<const int64_t> shape(tensor.shape.data(), static_cast<size_t>(tensor.rank));
  // 2^60 elements of at most 8 bytes still fit a signed 64-bit size.
  if (too_many || elements > uint64_t{1} << 60) {
    return corrupt(file, fmt::format("tensor {} has shape {}, expected fewer than 2^60 elements", quote(tensor.name),
                                     format_shape(shape)));
  }
  if (block_elements == 0) return Ok{};
  const uint64_t row = tensor.rank == 0 ? 1 : static_cast<uint64_t>(tensor.shape[tensor.rank - 1]);
  if (row % block_elements != 0) {
    return corrupt(file, fmt::format("tensor {} has shape {}, expected rows of whole blocks of {} for type {}",
                                     quote(tensor.name), format_shape(shape), block_elements, tensor.type_name));
  }
  tensor.bytes = elements / block_elements * block_bytes;
  return Ok{};
}

Result<GgufEntry> parse_entry(GgufCursor& cursor, uint64_t index, uint64_t count, std::string_view file) {
  const std::string position = fmt::format("metadata key {} of {}", index + 1, count);
  DSPARK_TRY(const auto key, cursor.string(position, kMaxKeyBytes, false));
  const std::string what = fmt::format("metadata key {}", quote(key));
  DSPARK_TRY(const auto raw_type, cursor.number<uint32_t>(what));
  if (raw_type >= kGgufTypeCount) {
    return corrupt(file, fmt::format("{} has value type {}, expected 0 to {}", what, raw_type, kGgufTypeCount - 1));
  }
  GgufEntry entry{.key = key, .type = static_cast<GgufType>(raw_type), .element = {}, .count = 1, .data = {}};
  entry.element = entry.type;
  if (entry.type == GgufType::kArray) {
    DSPARK_TRY(const auto raw_element, cursor.number<uint32_t>(what));
    DSPARK_TRY(entry.count, cursor.number<uint64_t>(what));
    if (raw_element >= kGgufTypeCount || raw_element == static_cast<uint32_t>(GgufType::kArray)) {
      return corrupt(
          file, fmt::format("{} is an array of type {}, expected a number, bool or string type", what, raw_element));
    }
    entry.element = static_cast<GgufType>(raw_element);
  }
  if (entry.element == GgufType::kString) {
    DSPARK_TRY(entry.data, cursor.strings(entry.count, what));
    return entry;
  }
  const uint64_t element_bytes = gguf_scalar_bytes(entry.element);
  if (entry.count > cursor.left() / element_bytes) {
    return corrupt(file, fmt::format("{} has {} elements of {} bytes at byte {}, found {} bytes", what, entry.count,
                                     element_bytes, cursor.position(), cursor.left()));
  }
  DSPARK_TRY(entry.data, cursor.take(entry.count * element_bytes, what));
  if (entry.element == GgufType::kBool) {
    const auto bad = std::find_if(entry.data.begin(), entry.data.end(), [](uint8_t value) { return value > 1; });
    if (bad != entry.data.end()) return corrupt(file, fmt::format("{} is bool {}, expected 0 or 1", what, *bad));
  }
  return entry;
}

// The tensor, with its offset in the data section instead of a pointer.
Result<std::pair<TensorInfo, uint64_t>> parse_tensor(GgufCursor& cursor, uint64_t index, uint64_t count,
                                                     std::string_view file) {
  const std::string position = fmt::format("tensor {} of {}", index + 1, count);
  TensorInfo tensor;
  DSPARK_TRY(const auto tensor_name, cursor.string(position, kMaxNameBytes, false));
  tensor.name = tensor_name;
  const std::string what = fmt::format("tensor {}", quote(tensor.name));
  DSPARK_TRY(const auto rank, cursor.number<uint32_t>(what));
  if (rank > kMaxGgufRank) {
    return corrupt(file, fmt::format("{} has {} dimensions, expected at most {}", what, rank, kMaxGgufRank));
  }
  tensor.rank = static_cast<int>(rank);
  for (uint32_t i = 0; i < rank; ++i) {
    // The file lists the innermost dimension first.
    DSPARK_TRY(const auto size, cursor.number<uint64_t>(what));
    if (!std::in_range<int64_t>(size)) {
      return corrupt(file, fmt::format("{} has dimension {}, expected less than 2^63", what, size));
    }
    tensor.shape[rank - 1 - i] = static_cast<int64_t>(size);
  }
  DSPARK_TRY(const auto ggml_type, cursor.number<uint32_t>(what));
  DSPARK_TRY(const auto offset, cursor.number<uint64_t>(what));
  DSPARK_RETURN_IF_ERROR(set_type(tensor, ggml_type, file));
  return std::pair(std::move(tensor), offset);
}

// Points the tensor at its bytes in `data`, the data section.
Status place_tensor(TensorInfo& tensor, uint64_t offset, std::span<const uint8_t> data, uint32_t alignment,
                    std::string_view file) {
  const std::string what = fmt::format("tensor {}", quote(tensor.name));
  if (offset % alignment != 0) {
    return corrupt(file,
                   fmt::format("{} has offset {}, expected a multiple of the alignment {}", what, offset, alignment));
  }
  if (offset > data.size() || tensor.bytes > data.size() - offset) {
    return corrupt(file, fmt::format("{} has {} bytes at offset {}, expected at most {} bytes of tensor data", what,
                                     tensor.bytes, offset, data.size()));
  }
  tensor.data = data.data() + offset;
  return Ok{};
}

// Indices of entries sorted by key; kCorrupt if a key stands twice.
Result<std::vector<uint32_t>> sort_keys(std::span<const GgufEntry> entries, std::string_view file) {
  std::vector<uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return entries[a].key < entries[b].key; });
  for (size_t i = 1; i < order.size(); ++i) {
    const std::string_view key = entries[order[i]].key;
    if (entries[order[i - 1]].key == key) {
      return corrupt(file, fmt::format("metadata key {} stands twice, expected once", quote(key)));
    }
  }
  return order;
}

const GgufEntry* find_entry(std::span<const GgufEntry> entries, std::span<const uint32_t> order, std::string_view key) {
  const auto it = std::lower_bound(order.begin(), order.end(), key,
                                   [&](uint32_t index, std::string_view k) { return entries[index].key < k; });
  return it != order.end() && entries[*it].key == key ? &entries[*it] : nullptr;
}

Status check_counts(uint64_t tensors, uint64_t keys, uint64_t bytes_left, std::string_view file) {
  // The least that one key (length, 1 byte, type, 1 byte) and one tensor (length, 1 byte, rank, type, offset) take.
  constexpr uint64_t kLeastKeyBytes = 8 + 1 + 4 + 1;
  constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;
  const uint64_t max_keys = std::min(kMaxEntries, bytes_left / kLeastKeyBytes);
  const uint64_t max_tensors = std::min(kMaxEntries, bytes_left / kLeastTensorBytes);
  if (keys > max_keys) {
    return corrupt(file, fmt::format("the header counts {} metadata keys, expected at most {} in a file of this size",
                                     keys, max_keys));
  }
  if (tensors > max_tensors) {
    return corrupt(file, fmt::format("the header counts {} tensors, expected at most {} in a file of this size",
                                     tensors, max_tensors));
  }
  return Ok{};
}

// The value of an integer key, or `fallback` if there is none.
Result<uint32_t> u32_or(std::span<const GgufEntry> entries, std::span<const uint32_t> order, std::string_view key,
                        uint32_t fallback, std::string_view file) {
  const GgufEntry* found = find_entry(entries, order, key);
  if (found == nullptr) return fallback;
  return read_gguf_value<uint32_t>(*found, file);
}

}  // namespace

// One file of a model.
struct GgufFile::Part {
  MappedFile map;  // empty when parsed from the caller's bytes
  std::string name;
  uint32_t version = 0;
  uint32_t alignment = kDefaultAlignment;
  uint32_t split_index = 0;
  uint32_t split_count = 1;
  std::vector<GgufEntry> entries;
  std::vector<uint32_t> by_key;
  std::vector<TensorInfo> tensors;
};

Result<GgufFile::Part> GgufFile::parse_part(std::span<const uint8_t> bytes, const std::string& name) {
  GgufCursor cursor(bytes, name);
  Part part;
  part.name = name;
  DSPARK_TRY(const auto magic, cursor.take(4, "the magic"));
  const std::string_view found(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (found != "GGUF") {
    return make_error(ErrorCode::kCorrupt,
                      "{}: begins with {}, expected 'GGUF'; give a GGUF file or a Hugging Face folder", name,
                      quote(found));
  }
  DSPARK_TRY(part.version, cursor.number<uint32_t>("the version"));
  if (part.version != 2 && part.version != 3) {
    const bool swapped = part.version != 0 && (part.version & 0xFFFF) == 0;
    return make_error(ErrorCode::kUnsupported, "{}: GGUF version {}{}, expected 2 or 3; convert the model again", name,
                      swapped ? __builtin_bswap32(part.version) : part.version, swapped ? " in big-endian order" : "");
  }
  DSPARK_TRY(const auto tensor_count, cursor.number<uint64_t>("the number of tensors"));
  DSPARK_TRY(const auto key_count, cursor.number<uint64_t>("the number of metadata keys"));
  DSPARK_RETURN_IF_ERROR(check_counts(tensor_count, key_count, cursor.left(), name));

  part.entries.reserve(key_count);
  for (uint64_t i = 0; i < key_count; ++i) {
    DSPARK_TRY(auto entry, parse_entry(cursor, i, key_count, name));
    part.entries.push_back(entry);
  }
  DSPARK_TRY(part.by_key, sort_keys(part.entries, name));
  DSPARK_TRY(part.alignment, u32_or(part.entries, part.by_key, "general.alignment", kDefaultAlignment, name));
  DSPARK_TRY(part.split_index, u32_or(part.entries, part.by_key, "split.no", 0, name));
  DSPARK_TRY(part.split_count, u32_or(part.entries, part.by_key, "split.count", 1, name));
  // A split of one part may be written as 0 or 1.
  part.split_count = std::max(part.split_count, 1u);
  // At least 8 by the specification; the upper limit keeps the arithmetic below free of overflow.
  if (!std::has_single_bit(part.alignment) || part.alignment < 8 || part.alignment > 1 << 20) {
    return corrupt(name, fmt::format("metadata key 'general.alignment' is {}, expected a power of two from 8 to {}",
                                     part.alignment, 1 << 20));
  }

  std::vector<uint64_t> offsets;
  part.tensors.reserve(tensor_count);
  offsets.reserve(tensor_count);
  for (uint64_t i = 0; i < tensor_count; ++i) {
    DSPARK_TRY(auto tensor, parse_tensor(cursor, i, tensor_count, name));
    part.tensors.push_back(std::move(tensor.first));
    offsets.push_back(tensor.second);
  }
  const uint64_t data_begin = (cursor.position() + part.alignment - 1) / part.alignment * part.alignment;
  const auto data = bytes.subspan(std::min<uint64_t>(data_begin, bytes.size()));
  for (size_t i = 0; i < part.tensors.size(); ++i) {
    DSPARK_RETURN_IF_ERROR(place_tensor(part.tensors[i], offsets[i], data, part.alignment, name));
  }
  DSPARK_RETURN_IF_ERROR(check_no_overlap(part.tensors, name));
  return part;
}

Result<std::vector<std::string>> GgufFile::part_paths(const Part& part, const std::string& path) {
  const auto name = parse_split_name(path);
  if (!name || name->index != part.split_index || name->count != part.split_count) {
    return make_error(ErrorCode::kCorrupt,
                      "{}: metadata says part {} of {}, expected a file name that ends in {}; restore the name", path,
                      part.split_index + uint64_t{1}, part.split_count,
                      quote(split_name("", part.split_index, part.split_count)));
  }
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < name->count; ++i) paths.push_back(split_name(name->prefix, i, name->count));
  return paths;
}

Status GgufFile::check_part(const Part& part, const Part& first, size_t index, size_t count, const std::string& name) {
  if (part.split_index != index || part.split_count != count) {
    return make_error(ErrorCode::kCorrupt, "{}: metadata says part {} of {}, expected part {} of {}; {}", name,
                      part.split_index + uint64_t{1}, part.split_count, index + 1, count, kDamagedHint);
  }
  if (part.version != first.version) {
    return make_error(ErrorCode::kCorrupt, "{}: GGUF version {}, expected {} as in the first part; {}", name,
                      part.version, first.version, kDamagedHint);
  }
  return Ok{};
}

Status GgufFile::take(std::vector<Part> parts) {
  Part& first = parts.front();
  version_ = first.version;
  alignment_ = first.alignment;
  metadata_ = std::move(first.entries);
  by_key_ = std::move(first.by_key);
  std::vector<TensorInfo> tensors;
  for (Part& part : parts) {
    for (TensorInfo& tensor : part.tensors) {
      tensor.file = static_cast<uint32_t>(file_names_.size());
      tensors.push_back(std::move(tensor));
    }
    file_names_.push_back(std::move(part.name));
    if (!part.map.path().empty()) files_.push_back(std::move(part.map));
  }
  const GgufEntry* total = entry("split.tensors.count");
  if (total != nullptr) {
    DSPARK_TRY(const auto expected, read_gguf_value<uint64_t>(*total, path_));
    if (expected != tensors.size()) {
      return corrupt(path_, fmt::format("the parts hold {} tensors, expected {} by 'split.tensors.count'",
                                        tensors.size(), expected));
    }
  }
  return set_tensors(std::move(tensors));
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  DSPARK_TRY(MappedFile map, MappedFile::open(path));
  DSPARK_TRY(Part opened, parse_part(map.bytes(), path));
  opened.map = std::move(map);
  GgufFile file(path);
  std::vector<Part> parts;
  if (opened.split_count == 1) {
    parts.push_back(std::move(opened));
  } else {
    DSPARK_TRY(const auto paths, part_paths(opened, path));
    for (size_t i = 0; i < paths.size(); ++i) {
      if (paths[i] == path) {
        parts.push_back(std::move(opened));
      } else {
        DSPARK_TRY(MappedFile part_map, MappedFile::open(paths[i]));
        DSPARK_TRY(Part part, parse_part(part_map.bytes(), paths[i]));
        part.map = std::move(part_map);
        parts.push_back(std::move(part));
      }
      DSPARK_RETURN_IF_ERROR(check_part(parts[i], parts[0], i, paths.size(), paths[i]));
    }
  }
  DSPARK_RETURN_IF_ERROR(file.take(std::move(parts)));
  return file;
}

Result<GgufFile> GgufFile::parse(std::span<const uint8_t> bytes, std::string name) {
  DSPARK_TRY(Part part, parse_part(bytes, name));
  if (part.split_count != 1) {
    return make_error(ErrorCode::kInvalidArgument, "{}: part {} of {}, expected a whole model; open it by its path",
                      name, part.split_index + uint64_t{1}, part.split_count);
  }
  GgufFile file(std::move(name));
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  DSPARK_RETURN_IF_ERROR(file.take(std::move(parts)));
  return file;
}

const GgufEntry* GgufFile::entry(std::string_view key) const { return find_entry(metadata_, by_key_, key); }

Error GgufFile::missing(std::string_view key) const {
  return make_error(ErrorCode::kCorrupt, "{}: metadata key {} is missing; convert the model again", path(), quote(key));
}

Error GgufFile::wrong_count(const GgufEntry& entry, size_t layers) const {
  return make_error(ErrorCode::kCorrupt, "{}: metadata key {} has {} values, expected one for each of {} layers",
                    path(), quote(entry.key), entry.count, layers);
}

}  // namespace dspark
