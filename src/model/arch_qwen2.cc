// Qwen 2 and 2.5: llama's layer with biases on Q, K and V.
#include "model/arch_common.h"
#include "model/architecture.h"

namespace dspark {
namespace {

Result<ModelConfig> read_config(const ModelFile& file) {
  DSPARK_TRY(ModelConfig config, read_common_config(file));
  DSPARK_RETURN_IF_ERROR(check_no_other_tensors(config, file, {}));
  return config;
}

Result<ModelWeights> load_weights(const ModelConfig& config, WeightLoader& loader) {
  return load_common_weights(config, loader, {});
}

void layer(Step& step, const LayerWeights& weights) {
  step.norm(weights.attention_norm);
  step.project_qkv(weights);
  step.rotate({}, {});
  step.attend();
  step.project_output(weights, {});
  step.norm(weights.ffn_norm);
  step.gated_mlp(weights, {});
}

}  // namespace

const Architecture kQwen2 = {"qwen2", "Qwen2ForCausalLM", read_config, load_weights, layer};

}  // namespace dspark
