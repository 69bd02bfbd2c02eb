// See block_attention.h.
#include "train/block_attention.h"

#include <algorithm>
#include <cmath>

#include "train/gemm.h"

namespace dspark {
namespace {

int64_t keys_of(const TrainBlock& block) { return block.context_end - block.context_first + block.slots; }

// The queries of one KV head, [slots * group, dim], from rows of q_dim; and back.
void gather(const AttentionShape& shape, const TrainBlock& block, int kv_head, const float* from, float* out) {
  for (int row = 0; row < block.slots * shape.group(); ++row) {
    const int slot = block.first_slot + row / shape.group(), head = kv_head * shape.group() + row % shape.group();
    std::copy_n(from + slot * shape.q_dim() + head * shape.head_dim, shape.head_dim, out + row * shape.head_dim);
  }
}
void scatter_add(const AttentionShape& shape, const TrainBlock& block, int kv_head, const float* from, float* out) {
  for (int row = 0; row < block.slots * shape.group(); ++row) {
    const int slot = block.first_slot + row / shape.group(), head = kv_head * shape.group() + row % shape.group();
    float* to = out + slot * shape.q_dim() + head * shape.head_dim;
    for (int d = 0; d < shape.head_dim; ++d) to[d] += from[row * shape.head_dim + d];
  }
}

// Softmax over the live keys of a row of scores, in place; the others become 0.
void softmax(float* scores, int64_t live, int64_t keys, float scale) {
  const float most = *std::max_element(scores, scores + live);
  float sum = 0.0f;
  for (int64_t i = 0; i < live; ++i) sum += scores[i] = std::exp((scores[i] - most) * scale);
  for (int64_t i = 0; i < live; ++i) scores[i] /= sum;
  std::fill(scores + live, scores + keys, 0.0f);
}

}  // namespace

void BlockAttention::find_runs(std::span<const TrainBlock> blocks) {
  runs_.clear();
  first_weight_.clear();
  int64_t weights = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    first_weight_.push_back(weights);
    weights += keys_of(blocks[i]) * blocks[i].slots * shape_.heads;
    const bool shares = i > 0 && blocks[i].context_first < blocks[i - 1].context_end &&
                        blocks[i - 1].context_first < blocks[i].context_end;
    if (shares) {
      runs_.back().second = i + 1;
    } else {
      runs_.emplace_back(i, i + 1);
    }
  }
  weights_.ensure(static_cast<size_t>(weights));
}

void BlockAttention::forward_block(const TrainBlock& block, int kv_head, float* weights,
                                   const AttentionTensors<const float>& in, float* out) const {
  const int64_t dim = shape_.head_dim, stride = shape_.kv_dim(), at = kv_head * dim;
  const int64_t rows = block.slots * shape_.group(), keys = keys_of(block), seen = keys - block.slots;
  const int64_t context = block.context_first * stride + at, own = block.first_slot * stride + at;
  std::vector<float> q(static_cast<size_t>(rows * dim)), summed(q.size());
  gather(shape_, block, kv_head, in.q, q.data());
  multiply(nullptr, rows, seen, dim, {q.data(), dim}, transposed(in.context_k + context, stride), weights, keys, false);
  multiply(nullptr, rows, block.slots, dim, {q.data(), dim}, transposed(in.k + own, stride), weights + seen, keys,
           false);
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t live = shape_.causal ? seen + row / shape_.group() + 1 : keys;
    softmax(weights + row * keys, live, keys, scale);
  }
  multiply(nullptr, rows, dim, block.slots, {weights + seen, keys}, {in.v + own, stride}, summed.data(), dim, false);
  if (seen > 0) {
    multiply(nullptr, rows, dim, seen, {weights, keys}, {in.context_v + context, stride}, summed.data(), dim, true);
  }
  scatter_add(shape_, block, kv_head, summed.data(), out);
}

void BlockAttention::forward(ThreadPool& pool, std::span<const TrainBlock> blocks,
                             const AttentionTensors<const float>& in, float* out) {
  find_runs(blocks);
  const int64_t slots = blocks.empty() ? 0 : blocks.back().first_slot + blocks.back().slots;
  std::fill_n(out, slots * shape_.q_dim(), 0.0f);
  pool.run(static_cast<int>(blocks.size()) * shape_.kv_heads, [&](int task) {
    const size_t i = static_cast<size_t>(task / shape_.kv_heads);
    const int kv_head = task % shape_.kv_heads;
    const int64_t share = keys_of(blocks[i]) * blocks[i].slots * shape_.group();
    forward_block(blocks[i], kv_head, weights_.data() + first_weight_[i] + kv_head * share, in, out);
  });
}

void BlockAttention::backward_block(const TrainBlock& block, int kv_head, const float* weights,
                                    const AttentionTensors<const float>& in, const float* dout,
                                    const AttentionTensors<float>& gradients) const {
  const int64_t dim = shape_.head_dim, stride = shape_.kv_dim(), at = kv_head * dim;
  const int64_t rows = block.slots * shape_.group(), keys = keys_of(block), seen = keys - block.slots;
  const int64_t context = block.context_first * stride + at, own = block.first_slot * stride + at;
  std::vector<float> q(static_cast<size_t>(rows * dim)), dsummed(q.size()), dq(q.size());
  std::vector<float> dscores(static_cast<size_t>(rows * keys));
  gather(shape_, block, kv_head, in.q, q.data());
  gather(shape_, block, kv_head, dout, dsummed.data());
  // d value += weights^T dout; d weights = dout value^T
  multiply(nullptr, block.slots, dim, rows, transposed(weights + seen, keys), {dsummed.data(), dim}, gradients.v + own,
           stride, true);
  multiply(nullptr, seen, dim, rows, transposed(weights, keys), {dsummed.data(), dim}, gradients.context_v + context,
           stride, true);
  multiply(nullptr, rows, seen, dim, {dsummed.data(), dim}, transposed(in.context_v + context, stride), dscores.data(),
           keys, false);
  multiply(nullptr, rows, block.slots, dim, {dsummed.data(), dim}, transposed(in.v + own, stride),
           dscores.data() + seen, keys, false);
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  for (int64_t row = 0; row < rows; ++row) {
    const float* weight = weights + row * keys;
    float* score = dscores.data() + row * keys;
    float mean = 0.0f;
    for (int64_t i = 0; i < keys; ++i) mean += weight[i] * score[i];
    for (int64_t i = 0; i < keys; ++i) score[i] = weight[i] * (score[i] - mean) * scale;
  }
  multiply(nullptr, rows, dim, block.slots, {dscores.data() + seen, keys}, {in.k + own, stride}, dq.data(), dim, false);
  if (seen > 0) {
    multiply(nullptr, rows, dim, seen, {dscores.data(), keys}, {in.context_k + context, stride}, dq.data(), dim, true);
  }
  multiply(nullptr, block.slots, dim, rows, transposed(dscores.data() + seen, keys), {q.data(), dim}, gradients.k + own,
           stride, true);
  multiply(nullptr, seen, dim, rows, transposed(dscores.data(), keys), {q.data(), dim}, gradients.context_k + context,
           stride, true);
  scatter_add(shape_, block, kv_head, dq.data(), gradients.q);
}

void BlockAttention::backward(ThreadPool& pool, std::span<const TrainBlock> blocks,
                              const AttentionTensors<const float>& in, const float* dout,
                              const AttentionTensors<float>& gradients) {
  // Blocks that share context rows add to the same gradients, so one task goes through them in order.
  pool.run(static_cast<int>(runs_.size()) * shape_.kv_heads, [&](int task) {
    const auto [first, end] = runs_[static_cast<size_t>(task / shape_.kv_heads)];
    const int kv_head = task % shape_.kv_heads;
    for (size_t i = first; i < end; ++i) {
      const int64_t share = keys_of(blocks[i]) * blocks[i].slots * shape_.group();
      backward_block(blocks[i], kv_head, weights_.data() + first_weight_[i] + kv_head * share, in, dout, gradients);
    }
  });
}

}  // namespace dspark
