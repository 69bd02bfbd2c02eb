// What the architecture files share: the numbers and tensors that every decoder of the llama line has. Loading thread.
#pragma once

#include <initializer_list>
#include <vector>

#include "model/config.h"
#include "model/model_file.h"
#include "model/weights.h"

namespace dspark {

// Layers, sizes, heads, norm epsilon, RoPE base and factors, from the keys `<architecture>.*` of GGUF or from
// config.json. head_dim is hidden / heads where the file does not say; query_scale is 1 / sqrt(head_dim).
// `hf_defaults`: members that a config.json may leave out.
Result<ModelConfig> read_common_config(const ModelFile& file,
                                       const nlohmann::json& hf_defaults = nlohmann::json::object());

// The same of a GGUF, but for the vocabulary's size, which is left 0: a drafter may have no embedding.
Result<ModelConfig> read_gguf_shape(const GgufFile& file);

// The object of config.json that holds the text model's numbers, over `defaults`.
nlohmann::json hf_text_config(const HfFolder& folder, nlohmann::json defaults = nlohmann::json::object());

struct CommonTensors {
  float norm_plus = 0.0f;       // added to every norm's weights (Gemma, Hugging Face)
  bool interleaved_qk = false;  // Q and K rows come with rotation pairs side by side (GGUF's llama)
  bool dense_mlp = true;
  bool qk_norm = false;
  const char* hf_ffn_norm = "model.layers.{}.post_attention_layernorm.weight";
};

// kUnsupported if the file has a tensor that is neither one of load_common_weights nor of `more`, or of a layer or
// expert that is not there: a bias, say, without which every answer would be another.
Status check_no_other_tensors(const ModelConfig& config, const ModelFile& file, const CommonTensors& which,
                              std::initializer_list<TensorName> more = {});

// Embedding, head, final norm, and for each layer attention, its norm, the MLP's norm and, if dense, the MLP.
Result<ModelWeights> load_common_weights(const ModelConfig& config, WeightLoader& loader, const CommonTensors& which);

}  // namespace dspark
