// One layer of a drafter for training: forward keeps what backward needs. One thread; loops run on the pool.
#pragma once

#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "train/block_attention.h"
#include "train/parameters.h"
#include "train/rope.h"
#include "train/train_batch.h"

namespace dspark {

class DrafterLayer {
 public:
  DrafterLayer(const DsparkConfig& config, LayerParameters* parameters);

  // x [slots, hidden] in place; context [context, hidden] are the normalised features.
  void forward(ThreadPool& pool, const TrainBatch& batch, const RopeTable& rope, const float* context, float* x);
  // dx: from the gradient of what forward left in x to that of what it found there. Adds to dcontext.
  void backward(ThreadPool& pool, const TrainBatch& batch, const RopeTable& rope, const float* context, float* dx,
                float* dcontext);

 private:
  // Keys or queries on their way from the product to the attention.
  struct Rotated {
    Buffer<float> raw, inverse, ready;  // [rows, heads * dim], [rows, heads], [rows, heads * dim]
  };
  void rotate(ThreadPool& pool, const RopeTable& rope, int64_t rows, int heads, const int32_t* positions,
              const Parameter& norm, Rotated* values) const;
  // gradient [rows, heads * dim] of `ready` becomes that of `raw`.
  void rotate_back(ThreadPool& pool, const RopeTable& rope, int64_t rows, int heads, const int32_t* positions,
                   Parameter* norm, const Rotated& values, Buffer<float>* gradient);
  AttentionTensors<const float> attention_inputs() const;
  void backward_mlp(ThreadPool& pool, int64_t slots, float* dx);

  const DsparkConfig& config_;
  LayerParameters& parameters_;
  BlockAttention attention_;
  Buffer<float> x_in_, inverse_in_, h_;  // [slots, hidden]
  Rotated q_, k_, context_k_;
  Buffer<float> v_, context_v_;
  Buffer<float> attended_;                     // [slots, q_dim]
  Buffer<float> x_mid_, inverse_mid_, h_mid_;  // [slots, hidden]
  Buffer<float> gate_, up_, gated_;            // [slots, ffn]
  // gradients
  Buffer<float> dh_, dgate_, dup_, dgated_, dattended_, dq_, dk_, dv_, dcontext_k_, dcontext_v_, scratch_;
};

}  // namespace dspark
