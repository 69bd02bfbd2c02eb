// See trainer.h.
#include "train/trainer.h"

#include <algorithm>
#include <chrono>
#include <fstream>

#include "base/cache_dir.h"
#include "base/json.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "draft/dspark_weights.h"
#include "train/adamw.h"
#include "train/drafter_export.h"
#include "train/gemm.h"
#include "train/initialise.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;
constexpr uint64_t kEvaluationStep = ~uint64_t{0};  // no training step draws from this stream

}  // namespace

Result<std::unique_ptr<Trainer>> Trainer::open(Engine& engine, const TrainOptions& options) {
  DSPARK_RETURN_IF_ERROR(load_gemm());
  std::unique_ptr<Trainer> trainer(new Trainer(engine, options));
  DSPARK_RETURN_IF_ERROR(trainer->prepare());
  DSPARK_RETURN_IF_ERROR(trainer->start_or_resume());
  return trainer;
}

Status Trainer::prepare() {
  DSPARK_RETURN_IF_ERROR(create_folders(options_.folder));
  DSPARK_RETURN_IF_ERROR(choose_recipe());
  DSPARK_TRY(data_, load_train_data(options_.data, engine_.config().vocab, recipe_.held_out_every));
  recipe_.drafter.target_digest = engine_.runner().digest();
  DSPARK_TRY(FeatureStore store,
             FeatureStore::open(options_.folder + "/features.bin", to_hex(engine_.runner().digest()),
                                recipe_.drafter.target_layers, options_.feature_bytes));
  features_ = std::make_unique<FeatureStore>(std::move(store));
  return Ok{};
}

Status Trainer::choose_recipe() {
  const ModelConfig& target = engine_.config();
  if (options_.start.empty()) {
    DSPARK_TRY(recipe_, load_recipe(options_.recipe, target));
    return Ok{};
  }
  DSPARK_TRY(const ModelFile file, ModelFile::open(options_.start));
  DSPARK_TRY(const DsparkConfig drafter, read_dspark_config(file));
  DSPARK_RETURN_IF_ERROR(check_target(drafter, target, engine_.runner().digest(), options_.start));
  DSPARK_RETURN_IF_ERROR(check_trainable(file, drafter, target));
  DSPARK_TRY(vocabulary_.ids, read_vocabulary_map(file, drafter));
  DSPARK_TRY(recipe_, fine_tuning_recipe(options_.recipe, drafter));
  return Ok{};
}

void Trainer::choose_vocabulary() {
  const int all = engine_.config().vocab;
  vocabulary_.target_size = all;
  if (!options_.start.empty()) return;  // the drafter's own
  vocabulary_ = frequent_tokens(data_, all, recipe_.vocabulary > 0 ? recipe_.vocabulary : all);
}

Status Trainer::start_or_resume() {
  const ModelConfig& target = engine_.config();
  Result<TrainState> saved = read_train_state(checkpoint_path());
  if (!saved.ok() && saved.error().code != ErrorCode::kNotFound) return saved.error();
  if (saved.ok()) {
    if (saved->recipe != recipe_.text) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: belongs to another recipe than {}; use the same, or another folder", checkpoint_path(),
                        options_.recipe);
    }
    state_ = *std::move(saved);
    vocabulary_ = {.target_size = target.vocab, .ids = state_.vocabulary};
  } else {
    choose_vocabulary();
    state_.vocabulary = vocabulary_.ids;
    state_.recipe = recipe_.text;
  }
  recipe_.drafter.draft_vocab = static_cast<int>(vocabulary_.rows());
  recipe_.drafter.backbone.vocab = target.vocab;
  parameters_ = std::make_unique<DrafterParameters>(recipe_.drafter);
  if (state_.step > 0) {
    DSPARK_RETURN_IF_ERROR(load_checkpoint(checkpoint_path(), parameters_.get()));
  } else if (!options_.start.empty()) {
    DSPARK_RETURN_IF_ERROR(load(options_.start));
  } else {
    initialise(engine_.runner().model(), recipe_, data_, vocabulary_, parameters_.get());
    if (!recipe_.start_from.empty()) {
      DSPARK_RETURN_IF_ERROR(start_from_checkpoint(options_.folder + "/" + recipe_.start_from + "/checkpoint.bin",
                                                   vocabulary_.ids, parameters_.get()));
    }
  }
  ThreadPool& pool = engine_.runner().pool();
  target_ = frozen_target(pool, engine_.runner().model(), parameters_->output == nullptr);
  graph_ = std::make_unique<DrafterGraph>(recipe_.drafter, vocabulary_, target_, parameters_.get(), pool,
                                          engine_.runner().ops());
  return Ok{};
}

// Depends on the seed, the step and the data alone.
Result<TrainBatch> Trainer::make_batch() {
  StepRandom random(recipe_.seed, static_cast<uint64_t>(state_.step));
  TrainBatch batch;
  for (int i = 0; i < recipe_.conversations; ++i) {
    const auto chosen = static_cast<size_t>(random.below(static_cast<int64_t>(data_.train.size())));
    const TrainConversation& conversation = data_.train[chosen];
    DSPARK_TRY(const TargetFeatures features,
               features_->get(engine_.runner(), recipe_.drafter.target_layers, conversation));
    add_blocks(conversation, features, vocabulary_, recipe_.batch, &random, &batch);
  }
  return batch;
}

LossOptions Trainer::loss_now() const {
  LossOptions loss = recipe_.loss;
  if (state_.step < recipe_.soft_steps) {
    loss.soft = 1.0;
    loss.cross_entropy = loss.l1 = 0.0;
  }
  return loss;
}

Status Trainer::step(TrainProgress* progress) {
  const auto start = Clock::now();
  DSPARK_TRY(const TrainBatch batch, make_batch());
  progress->feature_seconds = seconds_since(start);
  const auto computing = Clock::now();
  ThreadPool& pool = engine_.runner().pool();
  parameters_->clear_gradients();
  const LossOptions options = loss_now();
  progress->loss = graph_->train(batch, options).total(options);
  progress->rate = learning_rate(state_.step, recipe_.warm_up, recipe_.steps, recipe_.rate, recipe_.rate_floor);
  progress->gradient_norm = adamw_step(pool, recipe_.optimiser, state_.step, progress->rate, parameters_.get());
  progress->train_seconds = seconds_since(computing);
  ++state_.step;
  state_.predictions += batch.slots();
  state_.seconds += seconds_since(start);
  progress->step = state_.step;
  progress->steps = recipe_.steps;
  progress->predictions = state_.predictions;
  return Ok{};
}

Result<LossSums> Trainer::evaluate() {
  LossSums sums;
  BatchOptions options = recipe_.batch;
  options.short_blocks = 0;
  options.lookup_drop = 0;
  const auto count = std::min(static_cast<int64_t>(data_.held_out.size()), recipe_.evaluate_conversations);
  StepRandom random(recipe_.seed, kEvaluationStep);
  for (int64_t i = 0; i < count; ++i) {
    const TrainConversation& conversation = data_.held_out[static_cast<size_t>(i)];
    DSPARK_TRY(const TargetFeatures features,
               features_->get(engine_.runner(), recipe_.drafter.target_layers, conversation));
    TrainBatch batch;
    add_blocks(conversation, features, vocabulary_, options, &random, &batch);
    if (batch.slots() > 0) sums.add(graph_->evaluate(batch, recipe_.loss));
  }
  return sums;
}

Status Trainer::log_evaluation(double loss) {
  DSPARK_TRY(const LossSums sums, evaluate());
  nlohmann::ordered_json accepted = nlohmann::ordered_json::array();
  for (int k = 0; k < recipe_.drafter.block_size; ++k) {
    const auto i = static_cast<size_t>(k);
    accepted.push_back(
        sums.reached[i] == 0 ? 0.0 : static_cast<double>(sums.accepted[i]) / static_cast<double>(sums.reached[i]));
  }
  const double weight = std::max(sums.weight, 1e-9);
  const nlohmann::ordered_json line = {{"step", state_.step},
                                       {"predictions", state_.predictions},
                                       {"seconds", state_.seconds},
                                       {"answer_tokens", data_.answer_tokens()},
                                       {"train_loss", loss},
                                       {"cross_entropy", sums.cross_entropy / weight},
                                       {"soft", sums.soft / weight},
                                       {"l1", sums.l1 / weight},
                                       {"confidence", sums.confidence / weight},
                                       {"tau", sums.tau()},
                                       {"accepted", accepted}};
  std::ofstream out(options_.folder + "/log.jsonl", std::ios::app);
  out << line.dump() << '\n';
  log(LogLevel::kInfo, "{}", line.dump());
  return Ok{};
}

Status Trainer::run(const std::function<bool(const TrainProgress&)>& report) {
  DSPARK_TRY(const FileLock lock, FileLock::acquire(options_.folder + "/lock", [](auto&&...) { return true; }));
  bool wanted = true;
  while (wanted && state_.step < recipe_.steps) {
    TrainProgress progress = {};
    DSPARK_RETURN_IF_ERROR(step(&progress));
    wanted = report(progress);
    const bool last = !wanted || state_.step == recipe_.steps;
    if (state_.step % recipe_.evaluate_every == 0 || state_.step == recipe_.steps) {
      DSPARK_RETURN_IF_ERROR(log_evaluation(progress.loss));
    }
    if (last || state_.step % recipe_.save_every == 0) {
      DSPARK_RETURN_IF_ERROR(save_checkpoint(checkpoint_path(), state_, *parameters_));
    }
  }
  return Ok{};
}

Status Trainer::write(DType type, const GgufFile* target, const std::string& path) const {
  return export_drafter(recipe_.drafter, vocabulary_, *parameters_, type, target, path);
}

Status Trainer::load(const std::string& path) {
  DSPARK_TRY(const ModelFile file, ModelFile::open(path));
  return import_drafter(file, parameters_.get());
}

}  // namespace dspark
