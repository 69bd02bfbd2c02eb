// A training recipe: what the drafter is like and how it is trained, from a JSON file (docs/training.md). Read once;
// then const.
#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "train/adamw.h"
#include "train/batch_maker.h"
#include "train/draft_loss.h"

namespace dspark {

struct Recipe {
  DsparkConfig drafter;          // without draft_vocab, which the data decides
  int vocabulary = 0;            // tokens that the drafter can say; 0: all
  std::vector<int> from_layers;  // the target's layers that the drafter's start as

  uint64_t seed = 1;
  int64_t steps = 0;
  int conversations = 4;  // in a batch
  int held_out_every = 50;
  BatchOptions batch;
  LossOptions loss;
  int64_t soft_steps = 0;  // so many steps at first, only soft cross-entropy (and confidence) is minimised
  AdamWOptions optimiser;
  double rate = 1e-3;
  int64_t warm_up = 100;
  double rate_floor = 0.05;
  int64_t evaluate_every = 200, evaluate_conversations = 32;
  int64_t save_every = 200;

  std::string start_from;  // folder of another training, relative to this one's: its drafter is where this one starts

  std::string text;  // the file's
};

// Sizes that a recipe leaves out are the target's. kCorrupt and kInvalidArgument name the key, the value and what was
// expected.
Result<Recipe> load_recipe(const std::string& path, const ModelConfig& target);

// How a drafter that there is goes on learning, a little: its own sizes, and of the file, if there is one, what
// `training` says.
Result<Recipe> fine_tuning_recipe(const std::string& path, const DsparkConfig& drafter);

}  // namespace dspark
