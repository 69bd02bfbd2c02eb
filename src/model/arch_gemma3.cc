// Gemma 3, text: norms before and after attention and MLP, norms on queries and keys, GeGLU, scaled embeddings, and
// sliding-window layers with a RoPE base of their own between those with full attention.
#include <cmath>

#include "base/json.h"
#include "base/printable.h"
#include "model/arch_common.h"
#include "model/architecture.h"

namespace dspark {
namespace {

constexpr TensorName kPostAttention = {"blk.{}.post_attention_norm.weight",
                                       "model.layers.{}.post_attention_layernorm.weight"};
constexpr TensorName kPostFfn = {"blk.{}.post_ffw_norm.weight", "model.layers.{}.post_feedforward_layernorm.weight"};

constexpr CommonTensors kTensors = {.qk_norm = true, .hf_ffn_norm = "model.layers.{}.pre_feedforward_layernorm.weight"};

// Every `period`-th layer has full attention.
std::vector<bool> local_pattern(int layers, int period) {
  std::vector<bool> local;
  for (int i = 0; i < layers; ++i) local.push_back(period == 0 || (i + 1) % period != 0);
  return local;
}

Status read_gguf(const GgufFile& file, ModelConfig* c) {
  DSPARK_TRY(c->window, file.require<int32_t>("gemma3.attention.sliding_window"));
  DSPARK_TRY(c->local_rope.base, file.get_or<double>("gemma3.rope.freq_base_swa", 10000.0));
  DSPARK_TRY(const int32_t period, file.get_or<int32_t>("gemma3.attention.sliding_window_pattern", 6));
  c->local = local_pattern(c->layers, period);
  // The file does not hold the attention scale: only the 27B model, known by its depth, differs from 1 / sqrt(dim).
  constexpr int kLayersOf27B = 62;
  const int width = c->hidden / c->heads;
  if (c->layers == kLayersOf27B) c->query_scale = 1.0f / std::sqrt(static_cast<float>(width));
  return Ok{};
}

// RoPE of one kind of layer, as transformers 5 nests it.
Status read_nested_rope(const nlohmann::json& parameters, const char* kind, const std::string& name, RopeConfig* rope) {
  const auto found = parameters.find(kind);
  if (found == parameters.end()) return Ok{};
  DSPARK_TRY(rope->base, json_require<double>(*found, "rope_theta", name));
  DSPARK_TRY(const std::string type, json_get_or<std::string>(*found, "rope_type", "default", name));
  if (type == "linear") {
    DSPARK_TRY(rope->scale, json_require<double>(*found, "factor", name));
  } else if (type != "default") {
    return make_error(ErrorCode::kUnsupported, "{}: RoPE scaling {}, expected 'default' or 'linear'", name,
                      quote(type));
  }
  return Ok{};
}

// What published folders of the multimodal models leave out, as transformers' Gemma3TextConfig fills it in.
nlohmann::json hf_defaults() {
  return {{"model_type", "gemma3_text"},       {"vocab_size", 262208},    {"hidden_size", 2304},
          {"intermediate_size", 9216},         {"num_hidden_layers", 26}, {"num_attention_heads", 8},
          {"num_key_value_heads", 4},          {"head_dim", 256},         {"hidden_activation", "gelu_pytorch_tanh"},
          {"max_position_embeddings", 131072}, {"rms_norm_eps", 1e-6},    {"rope_theta", 1e6},
          {"query_pre_attn_scalar", 256},      {"sliding_window", 4096}};
}

Status read_hf(const HfFolder& folder, ModelConfig* c) {
  const nlohmann::json config = hf_text_config(folder, hf_defaults());
  const std::string name = folder.config_name();
  DSPARK_TRY(c->window, json_require<int32_t>(config, "sliding_window", name));
  DSPARK_TRY(c->local_rope.base, json_get_or<double>(config, "rope_local_base_freq", 10000.0, name));
  const auto nested = config.find("rope_parameters");
  if (nested != config.end() && nested->is_object()) {
    DSPARK_RETURN_IF_ERROR(read_nested_rope(*nested, "full_attention", name, &c->rope));
    DSPARK_RETURN_IF_ERROR(read_nested_rope(*nested, "sliding_attention", name, &c->local_rope));
  }
  DSPARK_TRY(const int32_t period, json_get_or<int32_t>(config, "sliding_window_pattern", 6, name));
  c->local = local_pattern(c->layers, period);
  if (config.contains("layer_types")) {
    DSPARK_TRY(const std::vector<std::string> types,
               json_require<std::vector<std::string>>(config, "layer_types", name));
    if (types.size() != static_cast<size_t>(c->layers)) {
      return make_error(ErrorCode::kCorrupt, "{}: {} layer_types, expected {}", name, types.size(), c->layers);
    }
    for (size_t i = 0; i < types.size(); ++i) {
      c->local[i] = types[i] == "sliding_attention";
      if (c->local[i] || types[i] == "full_attention") continue;
      return make_error(ErrorCode::kUnsupported,
                        "{}: layer_types[{}] is {}, expected 'full_attention' or "
                        "'sliding_attention'",
                        name, i, quote(types[i]));
    }
  }
  if (config.contains("hidden_activation") && c->gate != Gate::kGeluTanh) {
    return make_error(ErrorCode::kUnsupported, "{}: 'hidden_activation' is {}, expected \"gelu_pytorch_tanh\"", name,
                      config["hidden_activation"].dump());
  }
  DSPARK_TRY(const float scalar, json_get_or<float>(config, "query_pre_attn_scalar", float(c->head_dim), name));
  c->query_scale = 1.0f / std::sqrt(scalar);
  return Ok{};
}

Result<ModelConfig> read_config(const ModelFile& file) {
  DSPARK_TRY(ModelConfig c, read_common_config(file, hf_defaults()));
  DSPARK_RETURN_IF_ERROR(check_no_other_tensors(c, file, kTensors, {kPostAttention, kPostFfn}));
  DSPARK_RETURN_IF_ERROR(file.gguf() != nullptr ? read_gguf(*file.gguf(), &c) : read_hf(*file.hf(), &c));
  c.gate = Gate::kGeluTanh;
  c.embedding_scale = std::sqrt(static_cast<float>(c.hidden));
  return c;
}

Result<ModelWeights> load_weights(const ModelConfig& c, WeightLoader& loader) {
  const float plus = loader.is_gguf() ? 0.0f : 1.0f;  // GGUF stores 1 + w
  CommonTensors tensors = kTensors;
  tensors.norm_plus = plus;
  DSPARK_TRY(ModelWeights weights, load_common_weights(c, loader, tensors));
  for (int i = 0; i < c.layers; ++i) {
    LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    DSPARK_TRY(layer.post_attention_norm, loader.vector(kPostAttention, c.hidden, i, plus));
    DSPARK_TRY(layer.post_ffn_norm, loader.vector(kPostFfn, c.hidden, i, plus));
  }
  return weights;
}

void layer(Step& step, const LayerWeights& weights) {
  step.norm(weights.attention_norm);
  step.project_qkv(weights);
  step.rotate(weights.q_norm, weights.k_norm);
  step.attend();
  step.project_output(weights, weights.post_attention_norm);
  step.norm(weights.ffn_norm);
  step.gated_mlp(weights, weights.post_ffn_norm);
}

}  // namespace

const Architecture kGemma3 = {
    "gemma3", "Gemma3ForCausalLM", read_config, load_weights, layer, "Gemma3ForConditionalGeneration"};

}  // namespace dspark
