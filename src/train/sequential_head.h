// The sequential head for training, teacher-forced: what the token before a prediction adds to its logits
// (docs/drafter.md). One thread; loops run on the pool.
#pragma once

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "train/parameters.h"
#include "train/train_batch.h"

namespace dspark {

class SequentialHead {
 public:
  SequentialHead(const DsparkConfig& config, DrafterParameters* parameters)
      : config_(config), parameters_(*parameters) {}

  // Adds to logits [slots, draft_vocab]; states [slots, hidden].
  void forward(ThreadPool& pool, const TrainBatch& batch, const float* states, float* logits);
  // Adds to dstates; `dtoken` [slots, rank] is what already flows to token(), and is written to.
  void backward(ThreadPool& pool, const TrainBatch& batch, const float* dlogits, float* dtoken, float* dstates);

  // The embedding of the token before each prediction, [slots, rank]; of the newest forward.
  const float* token() const { return token_.data(); }

 private:
  void forward_gated(ThreadPool& pool, const TrainBatch& batch, const float* states);
  void forward_rnn(ThreadPool& pool, const TrainBatch& batch, const float* states);
  void recur(const TrainBlock& block);
  void recur_back(const TrainBlock& block);
  void backward_gated(ThreadPool& pool, int64_t slots, float* dtoken, float* dstates);
  void backward_rnn(ThreadPool& pool, const TrainBatch& batch, float* dtoken, float* dstates);

  const DsparkConfig& config_;
  DrafterParameters& parameters_;
  Buffer<float> token_;      // [slots, rank]
  Buffer<float> joined_;     // gated: [slots, hidden + rank]; rnn: [slots, 2 rank + hidden]
  Buffer<float> projected_;  // gated: the gate [slots, rank]; rnn: gate, candidate, output [slots, 3 rank], all
                             // behind their functions
  Buffer<float> latent_;     // [slots, rank], what markov_w2 reads
  Buffer<float> dlatent_, dprojected_, djoined_;
};

}  // namespace dspark
