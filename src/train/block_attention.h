// Attention of draft blocks for training: the slots of a block look at the context before their anchor, whose keys and
// values several blocks share, and at one another. Forward keeps the weights for backward. One thread.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/thread_pool.h"
#include "train/train_batch.h"

namespace dspark {

struct AttentionShape {
  int heads, kv_heads, head_dim;
  bool causal;  // among the slots of a block
  int group() const { return heads / kv_heads; }
  int64_t q_dim() const { return int64_t{heads} * head_dim; }
  int64_t kv_dim() const { return int64_t{kv_heads} * head_dim; }
};

// Values, or their gradients: q, out [slots, q_dim], k and v [slots, kv_dim], of the context [context, kv_dim].
template <class T>
struct AttentionTensors {
  T* q;
  T *k, *v;
  T *context_k, *context_v;
};

class BlockAttention {
 public:
  explicit BlockAttention(const AttentionShape& shape) : shape_(shape) {}

  void forward(ThreadPool& pool, std::span<const TrainBlock> blocks, const AttentionTensors<const float>& in,
               float* out);
  // Of the blocks and values of the newest forward; adds to all gradients.
  void backward(ThreadPool& pool, std::span<const TrainBlock> blocks, const AttentionTensors<const float>& in,
                const float* dout, const AttentionTensors<float>& gradients);

 private:
  void forward_block(const TrainBlock& block, int kv_head, float* weights, const AttentionTensors<const float>& in,
                     float* out) const;
  void backward_block(const TrainBlock& block, int kv_head, const float* weights,
                      const AttentionTensors<const float>& in, const float* dout,
                      const AttentionTensors<float>& gradients) const;
  void find_runs(std::span<const TrainBlock> blocks);

  AttentionShape shape_;
  Buffer<float> weights_;                        // of each block: [kv_heads, slots * group, keys]
  std::vector<int64_t> first_weight_;            // [blocks]
  std::vector<std::pair<size_t, size_t>> runs_;  // ranges of blocks that share context rows
};

}  // namespace dspark
