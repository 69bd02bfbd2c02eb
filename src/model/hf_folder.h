// HfFolder: a model as a Hugging Face folder: config.json, safetensors (one file, or shards with an index) and the
// texts of tokenizer, chat template and generation defaults. Const after opening: any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/mmap.h"
#include "base/result.h"
#include "model/tensor_source.h"

namespace dspark {

class HfFolder : public TensorSource {
 public:
  // Needs config.json; a folder without weights opens, with no tensors, so that its tokenizer can be used alone.
  // Tensors keep their names of the folder ("model.layers.0.self_attn.q_proj.weight"); of a multimodal one the text
  // model's count, under the names that they would have alone.
  static Result<HfFolder> open(const std::string& path);

  // An object. Read its members with json_require and json_get_or (base/json.h).
  const nlohmann::json& config() const { return config_; }
  // Whether the text model's members are in "text_config".
  bool is_multimodal() const { return config_.contains("text_config") && config_["text_config"].is_object(); }
  // The path of config.json, for messages.
  std::string config_name() const { return path_ + "/config.json"; }

  // config.json, tokenizer.json and tokenizer_config.json (an empty file where there is none), then the weights, then
  // generation_config.json if there is one.
  std::vector<const MappedFile*> identity_files() const override;

  // The files' texts, unchecked; empty where there is no such file.
  std::string_view tokenizer_json() const { return text_of(tokenizer_); }
  std::string_view tokenizer_config_json() const { return text_of(tokenizer_config_); }
  std::string_view chat_template() const { return text_of(chat_template_); }
  std::string_view generation_config_json() const { return text_of(generation_config_); }

 private:
  explicit HfFolder(std::string path) : TensorSource(std::move(path)) {}
  static std::string_view text_of(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }
  Status open_weights();
  Status open_shards(const std::string& index_path);
  Status take(std::vector<TensorInfo> tensors);
  Result<std::vector<TensorInfo>> open_shard(const std::string& name);

  nlohmann::json config_;
  MappedFile config_file_;
  MappedFile tokenizer_;
  MappedFile tokenizer_config_;
  MappedFile chat_template_;
  MappedFile generation_config_;
};

}  // namespace dspark
