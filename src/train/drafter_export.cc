// See drafter_export.h.
#include "train/drafter_export.h"

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

}  // namespace dspark
