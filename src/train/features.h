// What the target computes from a conversation for the drafter to learn from: hidden states and its likeliest next
// tokens. The only part of the trainer that runs the target. The computing thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/runner.h"
#include "train/train_batch.h"
#include "train/train_data.h"

namespace dspark {

// In halves, so that what was kept on disk and what is fresh are the same.
struct TargetFeatures {
  int positions = 0;                    // that have a hidden state: all but the last token's
  int first_prediction = 0;             // from this position on, there are probabilities
  std::vector<uint16_t> hidden;         // [positions, layers * hidden size]
  std::vector<int32_t> tokens;          // [positions - first_prediction, kTargetTokens], likeliest first; -1: none
  std::vector<uint16_t> probabilities;  // the same shape; at temperature 1, of the whole vocabulary

  size_t bytes() const;
};

// `layers` ascending: the states behind them, concatenated for each position.
Result<TargetFeatures> compute_features(Runner& runner, std::span<const int> layers,
                                        const TrainConversation& conversation);

}  // namespace dspark
