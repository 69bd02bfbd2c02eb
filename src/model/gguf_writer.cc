// Serialisation behind gguf_writer.h.
#include "model/gguf_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dspark {
namespace {

template <class T>
constexpr GgufType kTypeOf = GgufType::kArray;
template <>
constexpr GgufType kTypeOf<uint8_t> = GgufType::kU8;
template <>
constexpr GgufType kTypeOf<int8_t> = GgufType::kI8;
template <>
constexpr GgufType kTypeOf<uint16_t> = GgufType::kU16;
template <>
constexpr GgufType kTypeOf<int16_t> = GgufType::kI16;
template <>
constexpr GgufType kTypeOf<uint32_t> = GgufType::kU32;
template <>
constexpr GgufType kTypeOf<int32_t> = GgufType::kI32;
template <>
constexpr GgufType kTypeOf<uint64_t> = GgufType::kU64;
template <>
constexpr GgufType kTypeOf<int64_t> = GgufType::kI64;
template <>
constexpr GgufType kTypeOf<float> = GgufType::kF32;
template <>
constexpr GgufType kTypeOf<double> = GgufType::kF64;
template <>
constexpr GgufType kTypeOf<bool> = GgufType::kBool;
template <>
constexpr GgufType kTypeOf<std::string_view> = GgufType::kString;

// Little-endian, as everything this project runs on.
template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <>
void put(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

template <>
void put(std::string& out, bool value) {
  out += static_cast<char>(value ? 1 : 0);
}

template <>
void put(std::string& out, GgufType type) {
  put(out, static_cast<uint32_t>(type));
}

}  // namespace

GgufWriter::~GgufWriter() {
  if (fd_ < 0) return;
  ::close(fd_);
  std::remove((path_ + ".part").c_str());
}

void GgufWriter::begin_pair(std::string_view key) {
  DSPARK_CHECK(fd_ < 0, "metadata {} set after create()", key);
  DSPARK_CHECK(!key.empty() && keys_.emplace(key).second, "metadata {} set twice", key);
  put(pairs_, key);
}

template <class T>
void GgufWriter::set(std::string_view key, T value) {
  begin_pair(key);
  put(pairs_, kTypeOf<T>);
  put(pairs_, value);
}

template <class T>
void GgufWriter::set_array(std::string_view key, std::span<const T> values) {
  begin_pair(key);
  put(pairs_, GgufType::kArray);
  put(pairs_, kTypeOf<T>);
  put<uint64_t>(pairs_, values.size());
  for (const T& value : values) put(pairs_, value);
}

void GgufWriter::set_array(std::string_view key, const std::vector<std::string>& texts) {
  set_array(key, std::vector<std::string_view>(texts.begin(), texts.end()));
}

void GgufWriter::copy(const GgufEntry& entry) {
  begin_pair(entry.key);
  put(pairs_, entry.type);
  if (entry.type == GgufType::kArray) {
    put(pairs_, entry.element);
    put<uint64_t>(pairs_, entry.count);
  }
  pairs_.append(reinterpret_cast<const char*>(entry.data.data()), entry.data.size());
}

void GgufWriter::set_alignment(uint32_t bytes) {
  DSPARK_CHECK(std::has_single_bit(bytes) && bytes >= 8, "alignment {}", bytes);
  alignment_ = bytes;
  set("general.alignment", bytes);
}

void GgufWriter::add(std::string_view name, int ggml_type, std::span<const int64_t> shape, int64_t bytes) {
  DSPARK_CHECK(fd_ < 0, "tensor {} added after create()", name);
  // 63 bytes is what llama.cpp takes.
  DSPARK_CHECK(!name.empty() && name.size() <= 63 && names_.emplace(name).second, "bad or repeated tensor name {}",
               name);
  tensors_.push_back({std::string(name), ggml_type, {shape.begin(), shape.end()}, static_cast<uint64_t>(bytes)});
}

void GgufWriter::add_tensor(std::string_view name, DType type, std::span<const int64_t> shape) {
  DSPARK_CHECK(!shape.empty() && shape.size() <= 4, "tensor {} has {} dimensions", name, shape.size());
  DSPARK_CHECK(shape.back() % dtype_info(type).block_elements == 0, "rows of {} in {}", shape.back(), name);
  int64_t elements = 1;
  for (const int64_t size : shape) elements *= size;
  add(name, dtype_info(type).ggml_type, shape, dtype_bytes(type, elements));
}

void GgufWriter::add_int64_tensor(std::string_view name, int64_t count) {
  constexpr int kGgmlInt64 = 27;
  add(name, kGgmlInt64, {&count, 1}, count * int64_t{sizeof(int64_t)});
}

std::string GgufWriter::header() const {
  std::string out = "GGUF";
  put<uint32_t>(out, 3);
  put<uint64_t>(out, tensors_.size());
  put<uint64_t>(out, keys_.size());
  out += pairs_;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put(out, std::string_view(tensor.name));
    put(out, static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) put(out, static_cast<uint64_t>(*size));
    put(out, static_cast<uint32_t>(tensor.ggml_type));
    put(out, offset);
    offset += padded(tensor.bytes);
  }
  out.resize(padded(out.size()));
  return out;
}

uint64_t GgufWriter::file_bytes() const {
  uint64_t bytes = header().size();
  for (const Tensor& tensor : tensors_) bytes += padded(tensor.bytes);
  return bytes;
}

Status GgufWriter::create(const std::string& path) {
  DSPARK_CHECK(fd_ < 0, "create() called twice");
  path_ = path;
  // finish() renames over it, which would put a file in the place of a device.
  struct stat there = {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: not a regular file; choose the name of a file", path);
  }
  const std::string part = path + ".part";
  fd_ = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) {
    return make_error(ErrorCode::kInternal, "{}: cannot create: {}; choose a folder that can be written", path,
                      std::strerror(errno));
  }
  const std::string text = header();
  return write_raw({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Status GgufWriter::write_raw(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd_, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      return make_error(ErrorCode::kExhausted, "{}.part: cannot write: {}; the file needs {} bytes", path_,
                        std::strerror(errno), file_bytes());
    }
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return Ok{};
}

Status GgufWriter::write(std::span<const uint8_t> bytes) {
  DSPARK_CHECK(fd_ >= 0 && tensor_ < tensors_.size(), "write() without a tensor to fill");
  const Tensor& tensor = tensors_[tensor_];
  DSPARK_CHECK(bytes.size() <= tensor.bytes - written_, "{} bytes for {}, expected at most {}", bytes.size(),
               tensor.name, tensor.bytes - written_);
  DSPARK_RETURN_IF_ERROR(write_raw(bytes));
  written_ += bytes.size();
  if (written_ < tensor.bytes) return Ok{};
  const std::vector<uint8_t> padding(padded(tensor.bytes) - tensor.bytes);
  tensor_ += 1;
  written_ = 0;
  return write_raw(padding);
}

Status GgufWriter::finish() {
  DSPARK_CHECK(fd_ >= 0 && tensor_ == tensors_.size(), "finish() with {} of {} tensors", tensor_, tensors_.size());
  // Late write errors (quotas, network disks) show here.
  const bool kept = ::fsync(fd_) == 0;
  const int error = errno;
  ::close(fd_);
  fd_ = -1;
  const std::string part = path_ + ".part";
  if (kept && std::rename(part.c_str(), path_.c_str()) == 0) return Ok{};
  const int cause = kept ? errno : error;
  std::remove(part.c_str());
  return make_error(ErrorCode::kExhausted, "{}: cannot finish: {}", path_, std::strerror(cause));
}

template void GgufWriter::set(std::string_view, uint8_t);
template void GgufWriter::set(std::string_view, int8_t);
template void GgufWriter::set(std::string_view, uint16_t);
template void GgufWriter::set(std::string_view, int16_t);
template void GgufWriter::set(std::string_view, uint32_t);
template void GgufWriter::set(std::string_view, int32_t);
template void GgufWriter::set(std::string_view, uint64_t);
template void GgufWriter::set(std::string_view, int64_t);
template void GgufWriter::set(std::string_view, float);
template void GgufWriter::set(std::string_view, double);
template void GgufWriter::set(std::string_view, bool);
template void GgufWriter::set(std::string_view, std::string_view);
template void GgufWriter::set_array(std::string_view, std::span<const uint8_t>);
template void GgufWriter::set_array(std::string_view, std::span<const int8_t>);
template void GgufWriter::set_array(std::string_view, std::span<const uint16_t>);
template void GgufWriter::set_array(std::string_view, std::span<const int16_t>);
template void GgufWriter::set_array(std::string_view, std::span<const uint32_t>);
template void GgufWriter::set_array(std::string_view, std::span<const int32_t>);
template void GgufWriter::set_array(std::string_view, std::span<const uint64_t>);
template void GgufWriter::set_array(std::string_view, std::span<const int64_t>);
template void GgufWriter::set_array(std::string_view, std::span<const float>);
template void GgufWriter::set_array(std::string_view, std::span<const double>);
template void GgufWriter::set_array(std::string_view, std::span<const bool>);
template void GgufWriter::set_array(std::string_view, std::span<const std::string_view>);

}  // namespace dspark
