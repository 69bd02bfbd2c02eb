// Model: a decoder that is loaded and can compute steps. Immutable after load, so any thread may read it; each Step
// that runs on it belongs to one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/config.h"
#include "model/model_file.h"
#include "model/step.h"
#include "model/weights.h"

namespace dspark {

class Model {
 public:
  // Binds and packs the weights; `pool` is only used during the call. kUnsupported, with the list of known ones, for
  // an architecture without a file here; kCorrupt where the file does not hold what its own numbers promise.
  static Result<Model> load(const ModelFile& file, ThreadPool& pool, const LoadOptions& options);

  const ModelConfig& config() const { return *config_; }
  const ModelWeights& weights() const { return *weights_; }

  // Layers lie one behind the other in a KV block.
  KvLayout kv_layout(DType type) const { return {type, config_->kv_heads, config_->head_dim}; }
  int64_t kv_block_bytes(DType type) const { return kv_layout(type).tile_bytes() * config_->layers; }

  // Computes the rows of `input` on `step` (made for this model's config).
  StepOutput forward(Step& step, const StepInput& input) const;

 private:
  Model() = default;
  const Architecture* architecture_ = nullptr;
  std::unique_ptr<ModelConfig> config_;  // its address stays, as steps refer to it
  std::unique_ptr<ModelWeights> weights_;
};

}  // namespace dspark
