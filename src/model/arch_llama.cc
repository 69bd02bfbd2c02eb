// Llama 2 and 3 and their kin (SmolLM2, Mistral, ...): pre-norm, grouped-query attention, SwiGLU.
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
  return load_common_weights(config, loader, {.interleaved_qk = loader.is_gguf()});
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

const Architecture kLlama = {"llama", "LlamaForCausalLM", read_config, load_weights, layer};

}  // namespace dspark
