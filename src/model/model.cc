// Loading and the forward pass of model.h.
#include "model/model.h"

#include "model/read_config.h"

namespace dspark {

Result<Model> Model::load(const ModelFile& file, ThreadPool& pool, const LoadOptions& options) {
  Model model;
  DSPARK_TRY(model.architecture_, find_architecture(file));
  DSPARK_TRY(ModelConfig config, read_model_config(file));
  auto arena = std::make_unique<Arena>();
  WeightLoader loader(file, pool, *arena, options);
  DSPARK_TRY(ModelWeights weights, model.architecture_->load_weights(config, loader));
  weights.arena = std::move(arena);
  for (const MappedFile* mapped : file.tensors().identity_files()) {
    DSPARK_RETURN_IF_ERROR(mapped->check_unchanged());
  }
  model.config_ = std::make_unique<ModelConfig>(std::move(config));
  model.weights_ = std::make_unique<ModelWeights>(std::move(weights));
  return model;
}

StepOutput Model::forward(Step& step, const StepInput& input) const {
  step.begin(input);
  step.embed(weights_->embedding);
  step.keep_hidden(-1);
  for (int i = 0; i < config_->layers; ++i) {
    const LayerWeights* layer = &weights_->layers[static_cast<size_t>(i)];
    step.enter_layer(i, i + 1 < config_->layers ? layer + 1 : nullptr);
    architecture_->layer(step, *layer);
    step.keep_hidden(i);
  }
  return step.head(weights_->final_norm, weights_->head_or_embedding());
}

}  // namespace dspark
