// Trainer: the loop of `dspark train`. Batches from the data, features from the target, steps of the drafter,
// evaluation on what is held out, checkpoints. Main thread; loops run on the engine's pool.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "train/checkpoint.h"
#include "train/drafter_graph.h"
#include "train/feature_store.h"
#include "train/recipe.h"

namespace dspark {

struct TrainOptions {
  std::string folder;  // checkpoint.bin, drafter.gguf, log.jsonl and, if kept, features.bin
  std::string data;
  std::string recipe;
  int64_t feature_bytes = 0;  // of features that are kept on disk
  std::string start = {};     // a drafter (GGUF) that is trained on, by fine_tuning_recipe(recipe)
};

struct TrainProgress {
  int64_t step, steps;
  int64_t predictions;
  double loss, rate, gradient_norm;
  double feature_seconds, train_seconds;  // of this step
};

class Trainer {
 public:
  // Goes on from the folder's checkpoint where there is one of the same recipe.
  static Result<std::unique_ptr<Trainer>> open(Engine& engine, const TrainOptions& options);

  // Steps until the recipe's are done or `report` returns false; saves at the end. Each evaluation is a line of
  // log.jsonl.
  Status run(const std::function<bool(const TrainProgress&)>& report);

  // Writes the drafter as it is now. `target`: its file, whose tokenizer is copied; may be null.
  Status write(DType type, const GgufFile* target, const std::string& path) const;
  // Takes the parameters of a drafter of the same kind from its GGUF.
  Status load(const std::string& path);

  const TrainState& state() const { return state_; }
  const Recipe& recipe() const { return recipe_; }
  const TrainData& data() const { return data_; }
  const DrafterParameters& parameters() const { return *parameters_; }
  const FeatureStore& features() const { return *features_; }

  // Losses and tau over held-out conversations, always the same ones.
  Result<LossSums> evaluate();

 private:
  Trainer(Engine& engine, TrainOptions options) : engine_(engine), options_(std::move(options)) {}
  Status prepare();
  Status choose_recipe();
  void choose_vocabulary();
  Status start_or_resume();
  Result<TrainBatch> make_batch();
  LossOptions loss_now() const;
  Status step(TrainProgress* progress);
  Status log_evaluation(double loss);
  std::string checkpoint_path() const { return options_.folder + "/checkpoint.bin"; }

  Engine& engine_;
  TrainOptions options_;
  Recipe recipe_;
  TrainData data_;
  TrainState state_;
  DraftVocabulary vocabulary_;
  std::unique_ptr<DrafterParameters> parameters_;
  FrozenTarget target_;
  std::unique_ptr<DrafterGraph> graph_;
  std::unique_ptr<FeatureStore> features_;
};

}  // namespace dspark
