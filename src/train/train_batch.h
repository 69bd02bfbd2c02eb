// TrainBatch: what one training step looks at: contexts of a few sequences, and draft blocks at anchors in them
// (docs/drafter.md). Plain data, made by batch_maker.h or by tests.
#pragma once

#include <cstdint>
#include <vector>

namespace dspark {

// The slots of one draft. They stand at position `anchor` and on, each predicting the position behind its own.
struct TrainBlock {
  int context_first, context_end;  // rows of the batch's context that it looks at: positions before the anchor
  int first_slot, slots;           // rows of the batch's slots
};

// Target probabilities that are kept for a prediction; what they leave out counts as zero.
inline constexpr int kTargetTokens = 128;

struct TrainBatch {
  // Context rows; those of one sequence stand together, in ascending positions.
  std::vector<float> features;             // [context, features]
  std::vector<int32_t> context_positions;  // [context]

  std::vector<TrainBlock> blocks;  // those that share context rows stand together
  // Of each slot:
  std::vector<int32_t> positions;
  std::vector<int32_t> inputs;                     // target id of the anchor; -1: the mask
  std::vector<int32_t> lookup_token, lookup_next;  // target ids; -1: none
  std::vector<int32_t> previous;                   // target id of the token before the predicted one
  std::vector<int32_t> labels;                     // target id of the predicted one
  std::vector<int32_t> labels_drafted;             // row of the drafter's head; -1: not in its vocabulary
  std::vector<double> temperatures;                // at which the label was drawn
  std::vector<uint64_t> seeds;                     // with whose noise it was drawn
  std::vector<int32_t> target_rows;                // [slots, kTargetTokens] rows of the drafter's head; -1: none
  std::vector<float> target_probabilities;         // the same shape

  int64_t context() const { return static_cast<int64_t>(context_positions.size()); }
  int64_t slots() const { return static_cast<int64_t>(positions.size()); }
};

}  // namespace dspark
