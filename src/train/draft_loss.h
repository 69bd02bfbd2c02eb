// The loss of a drafter: fused softmax, losses against the target and their gradient; and whether the drafter's choice
// would have been the target's, which the confidence head learns. One thread; loops run on the pool.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "draft/dspark_config.h"
#include "kernels/ops.h"
#include "train/train_batch.h"

namespace dspark {

// DSpark paper, section 3.1: 0.1 CE + 0.9 L1 + BCE of the confidence; prediction k (from 1) of a block weighs
// exp(-(k - 1) / decay). Each loss is the weighted mean over the predictions.
struct LossOptions {
  double cross_entropy = 0.1;  // against the token that was generated
  double l1 = 0.9;             // sum of |draft - target| over the vocabulary
  double soft = 0.0;           // cross-entropy against the target's distribution
  double confidence = 1.0;
  double decay = 4.0;
};

struct LossSums {
  double weight = 0.0;
  double cross_entropy = 0.0, l1 = 0.0, soft = 0.0, confidence = 0.0;  // weighted sums
  int64_t blocks = 0;
  std::array<int64_t, kMaxDraftSlots> reached = {};   // blocks whose predictions before this one all agree
  std::array<int64_t, kMaxDraftSlots> accepted = {};  // of those, agreeing here, too

  void add(const LossSums& other);
  double total(const LossOptions& options) const;
  // Tokens that a step of the target gives with these drafts: 1 and those accepted.
  double tau() const;
};

// What a token of the drafter's head is to the target. `vocabulary` is empty where they are the same.
struct DraftVocabulary {
  int target_size = 0;
  std::vector<int32_t> ids;  // ascending
  int32_t id(int64_t row) const { return ids.empty() ? static_cast<int32_t>(row) : ids[static_cast<size_t>(row)]; }
  // The row of a target id, or -1.
  int32_t row(int32_t id) const;
  int64_t rows() const { return ids.empty() ? target_size : static_cast<int64_t>(ids.size()); }
};

// logits [slots, rows of the vocabulary] become the gradient of the loss; so do confidences [slots] (null: none).
// What agrees is decided by the token law with the noise the label was drawn with.
LossSums draft_loss(ThreadPool& pool, const Ops& ops, const DraftVocabulary& vocabulary, const TrainBatch& batch,
                    const LossOptions& options, float* logits, float* confidences);

}  // namespace dspark
