// Qwen 3, mixture of experts: qwen3's attention, a router and small gated MLPs instead of one large one.
#include "base/json.h"
#include "model/arch_common.h"
#include "model/architecture.h"

namespace dspark {
namespace {

constexpr TensorName kRouter = {"blk.{}.ffn_gate_inp.weight", "model.layers.{}.mlp.gate.weight"};
constexpr TensorName kGate = {"blk.{}.ffn_gate_exps.weight", "model.layers.{}.mlp.experts.{}.gate_proj.weight"};
constexpr TensorName kUp = {"blk.{}.ffn_up_exps.weight", "model.layers.{}.mlp.experts.{}.up_proj.weight"};
constexpr TensorName kDown = {"blk.{}.ffn_down_exps.weight", "model.layers.{}.mlp.experts.{}.down_proj.weight"};

constexpr CommonTensors kTensors = {.dense_mlp = false, .qk_norm = true};

Result<ModelConfig> read_numbers(const ModelFile& file) {
  DSPARK_TRY(ModelConfig c, read_common_config(file));
  if (file.gguf() != nullptr) {
    const GgufFile& gguf = *file.gguf();
    DSPARK_TRY(c.experts, gguf.require<int32_t>("qwen3moe.expert_count"));
    DSPARK_TRY(c.experts_used, gguf.require<int32_t>("qwen3moe.expert_used_count"));
    DSPARK_TRY(c.expert_ffn, gguf.require<int32_t>("qwen3moe.expert_feed_forward_length"));
    DSPARK_TRY(c.normalise_experts, gguf.get_or<bool>("qwen3moe.expert_weights_norm", true));
    return c;
  }
  const nlohmann::json config = hf_text_config(*file.hf());
  const std::string name = file.hf()->config_name();
  // transformers 5 writes the name that other architectures have for it.
  const char* experts = config.contains("num_local_experts") ? "num_local_experts" : "num_experts";
  DSPARK_TRY(c.experts, json_require<int32_t>(config, experts, name));
  DSPARK_TRY(c.experts_used, json_require<int32_t>(config, "num_experts_per_tok", name));
  DSPARK_TRY(c.expert_ffn, json_require<int32_t>(config, "moe_intermediate_size", name));
  DSPARK_TRY(c.normalise_experts, json_get_or<bool>(config, "norm_topk_prob", false, name));
  DSPARK_TRY(const int32_t step, json_get_or<int32_t>(config, "decoder_sparse_step", 1, name));
  const auto dense = config.find("mlp_only_layers");
  if (step != 1 || (dense != config.end() && dense->is_array() && !dense->empty())) {
    return make_error(ErrorCode::kUnsupported, "{}: some layers are dense, expected experts in every layer", name);
  }
  return c;
}

Result<ModelConfig> read_config(const ModelFile& file) {
  DSPARK_TRY(ModelConfig c, read_numbers(file));
  DSPARK_RETURN_IF_ERROR(check_no_other_tensors(c, file, kTensors, {kRouter, kGate, kUp, kDown}));
  return c;
}

Result<std::vector<PackedMatrix>> load_experts(const ModelConfig& c, WeightLoader& loader, const TensorName& name,
                                               int64_t rows, int64_t k, int layer) {
  if (loader.is_gguf()) return loader.stacked(name, c.experts, rows, k, layer);
  std::vector<PackedMatrix> out;
  for (int e = 0; e < c.experts; ++e) {
    DSPARK_TRY(PackedMatrix matrix, loader.matrix(name, rows, k, layer, e));
    out.push_back(matrix);
  }
  return out;
}

Result<ModelWeights> load_weights(const ModelConfig& c, WeightLoader& loader) {
  DSPARK_TRY(ModelWeights weights, load_common_weights(c, loader, kTensors));
  for (int i = 0; i < c.layers; ++i) {
    LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    DSPARK_TRY(layer.router.weights, loader.router(kRouter, c.experts, c.hidden, i));
    DSPARK_TRY(std::vector<PackedMatrix> gate, load_experts(c, loader, kGate, c.expert_ffn, c.hidden, i));
    DSPARK_TRY(std::vector<PackedMatrix> up, load_experts(c, loader, kUp, c.expert_ffn, c.hidden, i));
    DSPARK_TRY(std::vector<PackedMatrix> down, load_experts(c, loader, kDown, c.hidden, c.expert_ffn, i));
    for (size_t e = 0; e < gate.size(); ++e) {
      layer.experts.push_back({gate[e], up[e], down[e]});
    }
  }
  return weights;
}

void layer(Step& step, const LayerWeights& weights) {
  step.norm(weights.attention_norm);
  step.project_qkv(weights);
  step.rotate(weights.q_norm, weights.k_norm);
  step.attend();
  step.project_output(weights, {});
  step.norm(weights.ffn_norm);
  step.experts(weights);
}

}  // namespace

const Architecture kQwen3Moe = {"qwen3moe", "Qwen3MoeForCausalLM", read_config, load_weights, layer};

}  // namespace dspark
