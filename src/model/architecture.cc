// The list behind architecture.h. Any thread.
#include "model/architecture.h"

#include <array>

#include "base/json.h"
#include "base/printable.h"

namespace dspark {

std::span<const Architecture* const> architectures() {
  static constexpr std::array kAll = {&kLlama, &kQwen2, &kQwen3, &kQwen3Moe, &kGemma3};
  return kAll;
}

Result<const Architecture*> find_architecture(const ModelFile& file) {
  std::string name;
  if (file.gguf() != nullptr) {
    DSPARK_TRY(const std::string_view in_file, file.gguf()->require<std::string_view>("general.architecture"));
    name = in_file;
  } else {
    const nlohmann::json& config = file.hf()->config();
    const auto list = config.find("architectures");
    if (list == config.end() || !list->is_array() || list->empty() || !list->front().is_string()) {
      return make_error(ErrorCode::kCorrupt, "{}: 'architectures' is missing, expected a list with one name",
                        file.hf()->config_name());
    }
    name = list->front().get<std::string>();
  }
  std::string known;
  for (const Architecture* architecture : architectures()) {
    const char* theirs = file.gguf() != nullptr ? architecture->gguf_name : architecture->hf_name;
    if (name == theirs) return architecture;
    if (file.gguf() == nullptr && !name.empty() && name == architecture->hf_multimodal_name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(theirs);
  }
  return make_error(ErrorCode::kUnsupported, "{}: architecture {} is not supported; known: {}", file.tensors().path(),
                    quote(name), known);
}

}  // namespace dspark
