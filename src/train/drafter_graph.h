// DrafterGraph: the whole drafter for training, from features and tokens to the loss and back to the gradients of all
// parameters (docs/drafter.md). One thread; loops run on the pool.
#pragma once

#include <memory>
#include <vector>

#include "train/draft_loss.h"
#include "train/drafter_layer.h"
#include "train/sequential_head.h"

namespace dspark {

// The target's matrices that the drafter uses as they are.
struct FrozenTarget {
  std::vector<float> embedding;  // [vocab, hidden], scaled
  std::vector<float> head;       // [vocab, hidden]; empty: the embedding, or the drafter has its own
};

class DrafterGraph {
 public:
  // All must outlive this.
  DrafterGraph(const DsparkConfig& config, const DraftVocabulary& vocabulary, const FrozenTarget& target,
               DrafterParameters* parameters, ThreadPool& pool, const Ops& ops);

  // The losses of a batch, and the gradients of all parameters, which are added.
  LossSums train(const TrainBatch& batch, const LossOptions& options);
  // The losses alone.
  LossSums evaluate(const TrainBatch& batch, const LossOptions& options);

  // Of a batch, [slots, rows of the vocabulary].
  std::vector<float> logits(const TrainBatch& batch);

 private:
  void forward(const TrainBatch& batch);
  void embed(const TrainBatch& batch);
  void backward(const TrainBatch& batch);
  void backward_heads(const TrainBatch& batch);
  void backward_inputs(const TrainBatch& batch);
  const float* frozen_head() const { return target_.head.empty() ? target_.embedding.data() : target_.head.data(); }

  const DsparkConfig& config_;
  const DraftVocabulary& vocabulary_;
  const FrozenTarget& target_;
  DrafterParameters& parameters_;
  ThreadPool& pool_;
  const Ops& ops_;
  RopeTable rope_;
  std::vector<std::unique_ptr<DrafterLayer>> layers_;
  SequentialHead head_;

  Buffer<float> projected_, inverse_context_, context_;  // [context, hidden], [context], [context, hidden]
  Buffer<float> proposed_token_, proposed_next_;         // [slots, hidden], embeddings, zero where there is none
  Buffer<float> x_, x_out_, inverse_out_, states_;       // [slots, hidden]
  Buffer<float> logits_;                                 // [slots, rows of the vocabulary]
  Buffer<float> confidences_;                            // [slots]
  Buffer<float> dstates_, dtoken_, dx_, dcontext_, dprojected_;
};

}  // namespace dspark
