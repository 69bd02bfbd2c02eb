// See drafter_export.h.
#include "train/drafter_export.h"

#include <algorithm>

#include "draft/dspark_tensors.h"
#include "kernels/formats/format.h"
#include "model/weights.h"

namespace dspark {
namespace {

DType type_of(const Parameter& parameter, DType wanted) {
  const bool vector = parameter.shape.size() < 2 || parameter.shape[0] == 1;
  return vector ? DType::kF32 : quantised_type(wanted, DType::kF32, parameter.shape[1]);
}

}  // namespace

Status export_drafter(const DsparkConfig& config, const DraftVocabulary& vocabulary,
                      const DrafterParameters& parameters, DType type, const GgufFile* target,
                      const std::string& path) {
  std::vector<DrafterTensor> tensors;
  for (const Parameter& parameter : parameters.all) {
    tensors.push_back({.name = parameter.name,
                       .shape = parameter.shape,
                       .source = DType::kF32,
                       .data = reinterpret_cast<const uint8_t*>(parameter.data()),
                       .type = type_of(parameter, type)});
  }
  return write_drafter(config, tensors, vocabulary.ids, target, path);
}

Status check_trainable(const ModelFile& file, const DsparkConfig& config, const ModelConfig& target) {
  const TensorSource& tensors = file.tensors();
  const auto refused = [&](const char* why) {
    return make_error(ErrorCode::kUnsupported, "{}: {}; train a new one (dspark train)", tensors.path(), why);
  };
  if (file.gguf() == nullptr) {
    return make_error(ErrorCode::kUnsupported, "{}: is no GGUF; make it one with dspark convert-drafter",
                      tensors.path());
  }
  if (tensors.contains(drafter_tensor::kEmbedding.gguf)) return refused("this drafter has an embedding of its own");
  if (config.embedding_scale && *config.embedding_scale != target.embedding_scale) {
    return refused("this drafter scales the embedding in its own way");
  }
  if (tensors.contains(drafter_tensor::kOutput.gguf) != (config.draft_vocab < target.vocab)) {
    return refused("this drafter has an output matrix of its own for the whole vocabulary");
  }
  if (!config.mask_embedding) return refused("this drafter has no mask embedding");
  if (!config.sample_from_anchor) return refused("this drafter's slots predict their own positions");
  if (!config.backbone.local.empty()) return refused("this drafter has layers with a window");
  return Ok{};
}

Status import_drafter(const ModelFile& file, DrafterParameters* parameters) {
  for (Parameter& parameter : parameters->all) {
    const bool may_be_missing = parameter.name.ends_with(".bias");
    if (may_be_missing && !file.tensors().contains(parameter.name)) {
      std::fill(parameter.value.begin(), parameter.value.end(), 0.0f);
      continue;
    }
    DSPARK_TRY(const TensorView view, file.tensors().find(parameter.name));
    const auto shape = std::span(view.shape).first(static_cast<size_t>(view.rank));
    if (!std::ranges::equal(shape, parameter.shape)) {
      return make_error(ErrorCode::kCorrupt, "{}: tensor '{}' has the shape {}, expected {}", file.tensors().path(),
                        parameter.name, format_shape(shape), format_shape(parameter.shape));
    }
    const int64_t k = parameter.shape.back();
    for (int64_t first = 0; first < parameter.size(); first += k) {
      format_of(view.type).dequantise(view.data + dtype_bytes(view.type, first), k, parameter.value.data() + first);
    }
  }
  return Ok{};
}

}  // namespace dspark
