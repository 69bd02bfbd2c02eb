// Qwen 3, dense: llama's layer with a norm on every query and key.
#include "model/arch_common.h"
#include "model/architecture.h"

namespace dspark {
namespace {

constexpr CommonTensors kTensors = {.qk_norm = true};

Result<ModelConfig> read_config(const ModelFile& file) {
  DSPARK_TRY(ModelConfig config, read_common_config(file));
  DSPARK_RETURN_IF_ERROR(check_no_other_tensors(config, file, kTensors));
  return config;
}

Result<ModelWeights> load_weights(const ModelConfig& config, WeightLoader& loader) {
  return load_common_weights(config, loader, kTensors);
}

void layer(Step& step, const LayerWeights& weights) {
  step.norm(weights.attention_norm);
  step.project_qkv(weights);
  step.rotate(weights.q_norm, weights.k_norm);
  step.attend();
  step.project_output(weights, {});
  step.norm(weights.ffn_norm);
  step.gated_mlp(weights, {});
}

}  // namespace

const Architecture kQwen3 = {"qwen3", "Qwen3ForCausalLM", read_config, load_weights, layer};

}  // namespace dspark
