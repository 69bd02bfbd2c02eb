// ModelFile: whatever a model path leads to, a GGUF file or a Hugging Face folder. Const after opening: any thread.
#pragma once

#include <string>
#include <variant>

#include "base/result.h"
#include "model/gguf.h"
#include "model/hf_folder.h"

namespace dspark {

class ModelFile {
 public:
  // A folder opens as Hugging Face folder, anything else as GGUF.
  static Result<ModelFile> open(const std::string& path);
  explicit ModelFile(std::variant<GgufFile, HfFolder> file) : file_(std::move(file)) {}

  // One of the two is set, the other nullptr.
  const GgufFile* gguf() const { return std::get_if<GgufFile>(&file_); }
  const HfFolder* hf() const { return std::get_if<HfFolder>(&file_); }
  const TensorSource& tensors() const {
    return std::visit([](const auto& file) -> const TensorSource& { return file; }, file_);
  }

 private:
  std::variant<GgufFile, HfFolder> file_;
};

}  // namespace dspark
