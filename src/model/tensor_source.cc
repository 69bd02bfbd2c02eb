// The table of tensors behind tensor_source.h.
#include "model/tensor_source.h"

#include <algorithm>
#include <numeric>

#include "base/printable.h"

namespace dspark {

Status TensorSource::set_tensors(std::vector<TensorInfo> tensors) {
  tensors_ = std::move(tensors);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  // Sorted rather than hashed: names are hostile, and a sort has no bad case.
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const TensorInfo& a = tensors_[by_name_[i - 1]];
    const TensorInfo& b = tensors_[by_name_[i]];
    if (a.name != b.name) continue;
    return make_error(ErrorCode::kCorrupt, "{}: tensor {} stands twice, expected once; {}", file_name(b.file),
                      quote(b.name), kDamagedHint);
  }
  return Ok{};
}

const TensorInfo* TensorSource::info(std::string_view name) const {
  const auto it = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t index, std::string_view key) { return tensors_[index].name < key; });
  return it != by_name_.end() && tensors_[*it].name == name ? &tensors_[*it] : nullptr;
}

Result<TensorView> TensorSource::find(std::string_view name) const {
  const TensorInfo* found = info(name);
  if (found == nullptr && tensors_.empty()) {
    return make_error(ErrorCode::kNotFound, "{}: holds no tensors, expected {}; fetch the model's weights, too", path_,
                      quote(name));
  }
  if (found == nullptr) {
    return make_error(ErrorCode::kNotFound, "{}: tensor {} is missing among {} tensors; the file holds another model",
                      path_, quote(name), tensors_.size());
  }
  const std::span<const int64_t> shape(found->shape.data(), static_cast<size_t>(found->rank));
  if (!found->type) {
    std::string known;
    for (int i = 0; i < kDTypeCount; ++i) {
      known += fmt::format("{}{}", i == 0 ? "" : ", ", dtype_info(static_cast<DType>(i)).name);
    }
    return make_error(ErrorCode::kUnsupported, "{}: tensor {} has type {}, expected one of {}", file_name(found->file),
                      quote(name), found->type_name, known);
  }
  TensorView view{.name = found->name,
                  .type = *found->type,
                  .rank = std::max(found->rank, 1),
                  .data = found->data,
                  .bytes = found->bytes};
  if (found->rank > static_cast<int>(view.shape.size())) {
    return make_error(ErrorCode::kUnsupported, "{}: tensor {} has shape {}, expected at most {} dimensions",
                      file_name(found->file), quote(name), format_shape(shape), view.shape.size());
  }
  std::copy_n(found->shape.begin(), view.shape.size(), view.shape.begin());
  if (found->bytes == 0) {
    return make_error(ErrorCode::kUnsupported, "{}: tensor {} has shape {}, expected at least one element",
                      file_name(found->file), quote(name), format_shape(shape));
  }
  return view;
}

Result<TensorView> TensorSource::find(std::string_view name, std::initializer_list<int64_t> shape) const {
  DSPARK_TRY(TensorView view, find(name));
  const std::span<const int64_t> found(view.shape.data(), static_cast<size_t>(view.rank));
  if (!std::equal(found.begin(), found.end(), shape.begin(), shape.end())) {
    return make_error(ErrorCode::kCorrupt, "{}: tensor {} has shape {}, expected {} by the model's parameters",
                      file_name(info(name)->file), quote(name), format_shape(found),
                      format_shape({shape.begin(), shape.size()}));
  }
  return view;
}

void TensorSource::release(const TensorView& view) const {
  const TensorInfo* found = info(view.name);
  DSPARK_CHECK(found != nullptr && found->data == view.data, "{} is not of {}", view.name, path_);
  if (found->file < files_.size()) files_[found->file].release({view.data, view.bytes});
}

void TensorSource::release_all() const {
  for (const MappedFile& file : files_) file.release_all();
}

std::vector<const MappedFile*> TensorSource::identity_files() const {
  std::vector<const MappedFile*> files;
  for (const MappedFile& file : files_) files.push_back(&file);
  return files;
}

uint64_t TensorSource::file_bytes() const {
  uint64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += file.bytes().size();
  return bytes;
}

std::string format_shape(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

Status check_no_overlap(std::span<const TensorInfo> tensors, std::string_view file) {
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.data != nullptr && tensor.bytes > 0) order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) { return a->data < b->data; });
  for (size_t i = 1; i < order.size(); ++i) {
    const TensorInfo& a = *order[i - 1];
    const TensorInfo& b = *order[i];
    const auto room = static_cast<uint64_t>(b.data - a.data);
    if (a.bytes <= room) continue;
    return make_error(ErrorCode::kCorrupt, "{}: tensor {} of {} bytes overlaps {}, which begins {} bytes behind it; {}",
                      file, quote(a.name), a.bytes, quote(b.name), room, kDamagedHint);
  }
  return Ok{};
}

}  // namespace dspark
