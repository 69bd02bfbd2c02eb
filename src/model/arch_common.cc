// See arch_common.h.
#include "model/arch_common.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>

#include "base/exact_math.h"
#include "base/json.h"
#include "base/printable.h"

namespace dspark {
namespace {

// Llama 3's frequency scaling (Llama 3.1 model card): long waves are stretched by `factor`, short ones kept, the
// band between is blended.
Status llama3_factors(const nlohmann::json& scaling, const std::string& name, ModelConfig* config) {
  DSPARK_TRY(const double factor, json_require<double>(scaling, "factor", name));
  DSPARK_TRY(const double low, json_require<double>(scaling, "low_freq_factor", name));
  DSPARK_TRY(const double high, json_require<double>(scaling, "high_freq_factor", name));
  DSPARK_TRY(const double original, json_require<double>(scaling, "original_max_position_embeddings", name));
  if (!(factor > 0.0) || !(high > low) || !(original > 0.0)) {
    return make_error(ErrorCode::kCorrupt, "{}: llama3 RoPE scaling with factor {}, low {}, high {}, original {}", name,
                      factor, low, high, original);
  }
  const int half = config->head_dim / 2;
  for (int i = 0; i < half; ++i) {
    const double frequency = exact_pow(config->rope.base, -2.0 * i / config->head_dim);
    const double wave = 2.0 * std::numbers::pi / frequency;
    const double smooth = std::min(1.0, std::max(0.0, (original / wave - low) / (high - low)));
    config->rope.factors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / factor + smooth)));
  }
  return Ok{};
}

float query_scale(int head_dim) { return 1.0f / std::sqrt(static_cast<float>(std::max(1, head_dim))); }

// Decoders look back only; a drafter, whose shape is read by the same keys, may look both ways within its block.
Status check_causal(const GgufFile& file, const std::string& architecture) {
  const std::string key = architecture + ".attention.causal";
  DSPARK_TRY(const bool causal, file.get_or<bool>(key, true));
  if (!causal) return make_error(ErrorCode::kUnsupported, "{}: {} is false, expected true", file.path(), key);
  return Ok{};
}

Result<ModelConfig> read_gguf(const GgufFile& file) {
  DSPARK_TRY(ModelConfig c, read_gguf_shape(file));
  DSPARK_RETURN_IF_ERROR(check_causal(file, c.architecture));
  const TensorInfo* embedding = file.info("token_embd.weight");
  if (embedding == nullptr) {
    return make_error(ErrorCode::kCorrupt, "{}: tensor 'token_embd.weight' is missing; is this a whole model?",
                      file.path());
  }
  c.vocab = static_cast<int>(std::min<int64_t>(embedding->shape[0], INT32_MAX));
  return c;
}

// transformers 4 keeps RoPE in rope_theta and rope_scaling, transformers 5 in rope_parameters.
Status read_hf_rope(const nlohmann::json& config, const std::string& name, ModelConfig* c) {
  const bool nested = config.contains("rope_parameters") && config["rope_parameters"].is_object();
  const nlohmann::json& base_holder = nested ? config["rope_parameters"] : config;
  if (base_holder.contains("full_attention")) {  // one for each kind of layer: the architecture reads them
    if (c->architecture.starts_with("gemma3")) return Ok{};
    return make_error(ErrorCode::kUnsupported,
                      "{}: 'rope_parameters' for each kind of layer, expected one for all of {}", name,
                      quote(c->architecture));
  }
  for (const nlohmann::json* holder : {&config, &base_holder}) {
    DSPARK_TRY(const double part, json_get_or<double>(*holder, "partial_rotary_factor", 1.0, name));
    if (part == 1.0) continue;
    return make_error(ErrorCode::kUnsupported, "{}: 'partial_rotary_factor' is {}, expected 1", name, part);
  }
  DSPARK_TRY(c->rope.base, json_get_or<double>(base_holder, "rope_theta", 10000.0, name));
  const nlohmann::json scaling = nested ? config["rope_parameters"] : config.value("rope_scaling", nlohmann::json());
  if (scaling.is_null()) return Ok{};
  DSPARK_TRY(const std::string old_type, json_get_or<std::string>(scaling, "type", "default", name));
  DSPARK_TRY(const std::string type, json_get_or<std::string>(scaling, "rope_type", old_type, name));
  if (type == "default") return Ok{};
  if (type == "llama3") return llama3_factors(scaling, name, c);
  if (type == "linear") {
    DSPARK_TRY(c->rope.scale, json_require<double>(scaling, "factor", name));
    return Ok{};
  }
  return make_error(ErrorCode::kUnsupported, "{}: RoPE scaling {}, expected 'default', 'linear' or 'llama3'", name,
                    quote(type));
}

// What a configuration may ask for that is not computed here. Left out, every answer would be another.
Status check_hf_features(const nlohmann::json& config, const std::string& name, ModelConfig* c) {
  DSPARK_TRY(std::string activation, json_get_or<std::string>(config, "hidden_act", "silu", name));
  DSPARK_TRY(activation, json_get_or<std::string>(config, "hidden_activation", activation, name));
  if (activation == "gelu_pytorch_tanh") {
    c->gate = Gate::kGeluTanh;
  } else if (activation != "silu" && activation != "swish") {
    return make_error(ErrorCode::kUnsupported, "{}: activation {}, expected 'silu' or 'gelu_pytorch_tanh'", name,
                      quote(activation));
  }
  for (const char* key : {"quantization_config", "final_logit_softcapping", "attn_logit_softcapping"}) {
    if (config.contains(key) && !config[key].is_null()) {
      return make_error(ErrorCode::kUnsupported,
                        "{}: has '{}', which this build does not compute; take a model without", name, key);
    }
  }
  for (const char* key : {"use_sliding_window", "use_bidirectional_attention"}) {
    DSPARK_TRY(const bool asked, json_get_or<bool>(config, key, false, name));
    if (asked) return make_error(ErrorCode::kUnsupported, "{}: '{}' is true, expected false", name, key);
  }
  return Ok{};
}

// The same of a GGUF file's keys.
Status check_gguf_features(const GgufFile& file, const std::string& architecture) {
  struct Neutral {
    const char* key;
    double value;
  };
  for (const auto& [suffix, neutral] : {Neutral{"final_logit_softcapping", 0.0}, Neutral{"attn_logit_softcapping", 0.0},
                                        Neutral{"rope.scaling.attn_factor", 1.0}}) {
    const std::string key = architecture + "." + suffix;
    DSPARK_TRY(const double found, file.get_or<double>(key, neutral));
    if (found == neutral) continue;
    return make_error(ErrorCode::kUnsupported, "{}: {} is {}, expected {}", file.path(), key, found, neutral);
  }
  return Ok{};
}

Result<ModelConfig> read_hf(const HfFolder& folder, const nlohmann::json& defaults) {
  const nlohmann::json config = hf_text_config(folder, defaults);
  const std::string name = folder.config_name();
  ModelConfig c;
  DSPARK_TRY(c.architecture, json_get_or<std::string>(config, "model_type", "", name));
  DSPARK_TRY(c.layers, json_require<int32_t>(config, "num_hidden_layers", name));
  DSPARK_TRY(c.hidden, json_require<int32_t>(config, "hidden_size", name));
  DSPARK_TRY(c.ffn, json_get_or<int32_t>(config, "intermediate_size", 0, name));
  DSPARK_TRY(c.heads, json_require<int32_t>(config, "num_attention_heads", name));
  DSPARK_TRY(c.kv_heads, json_get_or<int32_t>(config, "num_key_value_heads", c.heads, name));
  DSPARK_TRY(c.head_dim, json_get_or<int32_t>(config, "head_dim", c.heads > 0 ? c.hidden / c.heads : 0, name));
  DSPARK_TRY(c.vocab, json_require<int32_t>(config, "vocab_size", name));
  DSPARK_TRY(c.context, json_require<int32_t>(config, "max_position_embeddings", name));
  DSPARK_TRY(c.norm_eps, json_require<float>(config, "rms_norm_eps", name));
  DSPARK_TRY(const bool tied, json_get_or<bool>(config, "tie_word_embeddings", true, name));
  c.untied_head = !tied;
  if (c.head_dim < 16 || c.head_dim > 512) {
    return make_error(ErrorCode::kCorrupt, "{}: head dimension is {}, expected 16 to 512", name, c.head_dim);
  }
  DSPARK_RETURN_IF_ERROR(read_hf_rope(config, name, &c));
  DSPARK_RETURN_IF_ERROR(check_hf_features(config, name, &c));
  c.query_scale = query_scale(c.head_dim);
  return c;
}

constexpr TensorName kEmbedding = {"token_embd.weight", "model.embed_tokens.weight"};
constexpr TensorName kHead = {"output.weight", "lm_head.weight"};
constexpr TensorName kFinalNorm = {"output_norm.weight", "model.norm.weight"};
constexpr TensorName kAttentionNorm = {"blk.{}.attn_norm.weight", "model.layers.{}.input_layernorm.weight"};
constexpr TensorName kQ = {"blk.{}.attn_q.weight", "model.layers.{}.self_attn.q_proj.weight"};
constexpr TensorName kQBias = {"blk.{}.attn_q.bias", "model.layers.{}.self_attn.q_proj.bias"};
constexpr TensorName kK = {"blk.{}.attn_k.weight", "model.layers.{}.self_attn.k_proj.weight"};
constexpr TensorName kKBias = {"blk.{}.attn_k.bias", "model.layers.{}.self_attn.k_proj.bias"};
constexpr TensorName kV = {"blk.{}.attn_v.weight", "model.layers.{}.self_attn.v_proj.weight"};
constexpr TensorName kVBias = {"blk.{}.attn_v.bias", "model.layers.{}.self_attn.v_proj.bias"};
constexpr TensorName kQNorm = {"blk.{}.attn_q_norm.weight", "model.layers.{}.self_attn.q_norm.weight"};
constexpr TensorName kKNorm = {"blk.{}.attn_k_norm.weight", "model.layers.{}.self_attn.k_norm.weight"};
constexpr TensorName kOutput = {"blk.{}.attn_output.weight", "model.layers.{}.self_attn.o_proj.weight"};
constexpr TensorName kOutputBias = {"blk.{}.attn_output.bias", "model.layers.{}.self_attn.o_proj.bias"};
constexpr TensorName kGate = {"blk.{}.ffn_gate.weight", "model.layers.{}.mlp.gate_proj.weight"};
constexpr TensorName kUp = {"blk.{}.ffn_up.weight", "model.layers.{}.mlp.up_proj.weight"};
constexpr TensorName kDown = {"blk.{}.ffn_down.weight", "model.layers.{}.mlp.down_proj.weight"};
constexpr TensorName kNoBias = {"", ""};

// Undoes GGUF's order of llama's Q and K rows: there the pairs (i, i + dim / 2) of a head lie side by side.
std::vector<int32_t> half_split_order(int heads, int head_dim) {
  std::vector<int32_t> order;
  for (int head = 0; head < heads; ++head) {
    for (int i = 0; i < head_dim; ++i) {
      const int half = i / (head_dim / 2), pair = i % (head_dim / 2);
      order.push_back(head * head_dim + 2 * pair + half);
    }
  }
  return order;
}

// A tensor's name as TensorName writes it, "{}" for a number between dots, and those numbers: layer and expert.
struct NumberedName {
  std::string pattern;
  std::vector<int32_t> numbers;
};

NumberedName numbered(std::string_view name) {
  NumberedName out;
  while (!name.empty()) {
    const size_t end = std::min(name.find('.'), name.size());
    const std::string_view part = name.substr(0, end);
    int32_t number = 0;
    const auto parsed = std::from_chars(part.data(), part.data() + part.size(), number);
    const bool is_number = parsed.ec == std::errc() && parsed.ptr == part.data() + part.size() &&
                           std::to_string(number) == part && number >= 0;  // "07" names no layer
    if (is_number) out.numbers.push_back(number);
    out.pattern += is_number ? "{}" : part == "{}" ? "?" : part;
    if (end < name.size()) out.pattern += '.';
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return out;
}

Status load_layer(const ModelConfig& c, WeightLoader& loader, const CommonTensors& which, int i, LayerWeights* out) {
  std::vector<int32_t> q_order, k_order;
  if (which.interleaved_qk) {
    q_order = half_split_order(c.heads, c.head_dim);
    k_order = half_split_order(c.kv_heads, c.head_dim);
  }
  const float plus = which.norm_plus;
  DSPARK_TRY(out->attention_norm, loader.vector(kAttentionNorm, c.hidden, i, plus));
  DSPARK_TRY(out->q, loader.linear(kQ, kQBias, c.q_dim(), c.hidden, i, q_order));
  DSPARK_TRY(out->k, loader.linear(kK, kKBias, c.kv_dim(), c.hidden, i, k_order));
  DSPARK_TRY(out->v, loader.linear(kV, kVBias, c.kv_dim(), c.hidden, i));
  if (which.qk_norm) {
    DSPARK_TRY(out->q_norm, loader.vector(kQNorm, c.head_dim, i, plus));
    DSPARK_TRY(out->k_norm, loader.vector(kKNorm, c.head_dim, i, plus));
  }
  DSPARK_TRY(out->output, loader.linear(kOutput, kOutputBias, c.hidden, c.q_dim(), i));
  DSPARK_TRY(out->ffn_norm, loader.vector({"blk.{}.ffn_norm.weight", which.hf_ffn_norm}, c.hidden, i, plus));
  if (!which.dense_mlp) return Ok{};
  DSPARK_TRY(out->gate, loader.linear(kGate, kNoBias, c.ffn, c.hidden, i));
  DSPARK_TRY(out->up, loader.linear(kUp, kNoBias, c.ffn, c.hidden, i));
  DSPARK_TRY(out->down, loader.linear(kDown, kNoBias, c.hidden, c.ffn, i));
  return Ok{};
}

}  // namespace

nlohmann::json hf_text_config(const HfFolder& folder, nlohmann::json defaults) {
  defaults.update(folder.is_multimodal() ? folder.config()["text_config"] : folder.config());
  return defaults;
}

Result<ModelConfig> read_gguf_shape(const GgufFile& file) {
  ModelConfig c;
  DSPARK_TRY(const std::string_view name, file.require<std::string_view>("general.architecture"));
  c.architecture = name;
  auto key = [&](const char* suffix) { return c.architecture + "." + suffix; };
  DSPARK_TRY(c.layers, file.require<int32_t>(key("block_count")));
  DSPARK_TRY(c.hidden, file.require<int32_t>(key("embedding_length")));
  DSPARK_TRY(c.ffn, file.get_or<int32_t>(key("feed_forward_length"), 0));
  DSPARK_TRY(c.heads, file.require<int32_t>(key("attention.head_count")));
  DSPARK_TRY(c.kv_heads, file.get_or<int32_t>(key("attention.head_count_kv"), c.heads));
  DSPARK_TRY(c.head_dim, file.get_or<int32_t>(key("attention.key_length"), c.heads > 0 ? c.hidden / c.heads : 0));
  DSPARK_TRY(const int32_t value_dim, file.get_or<int32_t>(key("attention.value_length"), c.head_dim));
  if (value_dim != c.head_dim) {
    return make_error(ErrorCode::kUnsupported, "{}: value length {} differs from key length {}", file.path(), value_dim,
                      c.head_dim);
  }
  DSPARK_TRY(const int32_t rotary, file.get_or<int32_t>(key("rope.dimension_count"), c.head_dim));
  if (rotary != c.head_dim) {
    return make_error(ErrorCode::kUnsupported, "{}: {} rotary dimensions of {}, expected all", file.path(), rotary,
                      c.head_dim);
  }
  DSPARK_TRY(c.context, file.require<int32_t>(key("context_length")));
  DSPARK_TRY(c.norm_eps, file.require<float>(key("attention.layer_norm_rms_epsilon")));
  DSPARK_TRY(c.rope.base, file.get_or<double>(key("rope.freq_base"), 10000.0));
  DSPARK_RETURN_IF_ERROR(check_gguf_features(file, c.architecture));
  // A factor without a type is linear, as in llama.cpp; the second key is that of old files.
  DSPARK_TRY(const std::string_view scaling, file.get_or<std::string_view>(key("rope.scaling.type"), "linear"));
  if (scaling == "linear") {
    DSPARK_TRY(const double old_factor, file.get_or<double>(key("rope.scale_linear"), 1.0));
    DSPARK_TRY(c.rope.scale, file.get_or<double>(key("rope.scaling.factor"), old_factor));
  } else if (scaling != "none") {
    return make_error(ErrorCode::kUnsupported, "{}: RoPE scaling {}, expected 'linear' or 'none'", file.path(),
                      quote(scaling));
  }
  if (const TensorInfo* factors = file.info("rope_freqs.weight"); factors != nullptr) {
    DSPARK_TRY(const TensorView view, file.find("rope_freqs.weight", {c.head_dim / 2}));
    if (view.type != DType::kF32) {
      return make_error(ErrorCode::kCorrupt, "{}: tensor 'rope_freqs.weight' is {}, expected f32", file.path(),
                        dtype_info(view.type).name);
    }
    c.rope.factors.resize(static_cast<size_t>(c.head_dim / 2));
    std::memcpy(c.rope.factors.data(), view.data, view.bytes);
  }
  c.query_scale = query_scale(c.head_dim);
  return c;
}

Result<ModelConfig> read_common_config(const ModelFile& file, const nlohmann::json& hf_defaults) {
  DSPARK_TRY(ModelConfig config, file.gguf() != nullptr ? read_gguf(*file.gguf()) : read_hf(*file.hf(), hf_defaults));
  DSPARK_RETURN_IF_ERROR(check_shape(config, file.tensors().path()));
  return config;
}

Status check_no_other_tensors(const ModelConfig& config, const ModelFile& file, const CommonTensors& which,
                              std::initializer_list<TensorName> more) {
  std::vector<TensorName> known = {kEmbedding,
                                   kHead,
                                   kFinalNorm,
                                   kAttentionNorm,
                                   kQ,
                                   kQBias,
                                   kK,
                                   kKBias,
                                   kV,
                                   kVBias,
                                   kOutput,
                                   kOutputBias,
                                   {"blk.{}.ffn_norm.weight", which.hf_ffn_norm}};
  if (which.qk_norm) known.insert(known.end(), {kQNorm, kKNorm});
  if (which.dense_mlp) known.insert(known.end(), {kGate, kUp, kDown});
  known.insert(known.end(), more);
  // Tables of RoPE: GGUF's is read with the configuration, those of old folders follow from it.
  known.push_back({"rope_freqs.weight", "model.layers.{}.self_attn.rotary_emb.inv_freq"});
  const int32_t limits[] = {config.layers, config.experts};
  for (const TensorInfo& tensor : file.tensors().tensors()) {
    const NumberedName name = numbered(tensor.name);
    const bool is_known = std::ranges::any_of(
        known, [&](const TensorName& one) { return name.pattern == (file.gguf() != nullptr ? one.gguf : one.hf); });
    const bool is_there = name.numbers.size() <= std::size(limits) &&
                          std::equal(name.numbers.begin(), name.numbers.end(), limits, std::less<>());
    if (is_known && is_there) continue;
    return make_error(ErrorCode::kUnsupported,
                      "{}: has a tensor {}, which this build does not compute in such a model; take a model without",
                      file.tensors().path(), quote(tensor.name));
  }
  return Ok{};
}

Result<ModelWeights> load_common_weights(const ModelConfig& config, WeightLoader& loader, const CommonTensors& which) {
  ModelWeights weights;
  DSPARK_TRY(weights.embedding, loader.matrix(kEmbedding, config.vocab, config.hidden));
  if (loader.contains(kHead) || config.untied_head) {
    DSPARK_TRY(weights.head, loader.matrix(kHead, config.vocab, config.hidden));
  }
  DSPARK_TRY(weights.final_norm, loader.vector(kFinalNorm, config.hidden, 0, which.norm_plus));
  for (int i = 0; i < config.layers; ++i) {
    DSPARK_RETURN_IF_ERROR(load_layer(config, loader, which, i, &weights.layers.emplace_back()));
  }
  return weights;
}

}  // namespace dspark
