// See sequential_head.h.
#include "train/sequential_head.h"

#include <algorithm>
#include <cmath>

#include "train/linear.h"
#include "train/row_tasks.h"

namespace dspark {
namespace {

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

float* sized(Buffer<float>* buffer, int64_t count) {
  buffer->ensure(static_cast<size_t>(count));
  return buffer->data();
}

}  // namespace

void SequentialHead::forward(ThreadPool& pool, const TrainBatch& batch, const float* states, float* logits) {
  const int64_t slots = batch.slots(), rank = config_.rank;
  if (config_.head == DraftHead::kNone) return;
  sized(&token_, slots * rank);
  for_each_row(pool, slots, [&](int64_t row) {
    const float* from = parameters_.markov_w1->data() + batch.previous[static_cast<size_t>(row)] * rank;
    std::copy_n(from, rank, token_.data() + row * rank);
  });
  const float* latent = token_.data();
  if (config_.head == DraftHead::kGated) forward_gated(pool, batch, states);
  if (config_.head == DraftHead::kRnn) forward_rnn(pool, batch, states);
  if (config_.head != DraftHead::kMarkov) latent = latent_.data();
  linear(pool, slots, *parameters_.markov_w2, latent, logits, true);
}

void SequentialHead::forward_gated(ThreadPool& pool, const TrainBatch& batch, const float* states) {
  const int64_t slots = batch.slots(), rank = config_.rank, hidden = config_.backbone.hidden, width = hidden + rank;
  sized(&joined_, slots * width);
  for_each_row(pool, slots, [&](int64_t row) {
    std::copy_n(states + row * hidden, hidden, joined_.data() + row * width);
    std::copy_n(token_.data() + row * rank, rank, joined_.data() + row * width + hidden);
  });
  linear(pool, slots, *parameters_.gate, joined_.data(), sized(&projected_, slots * rank));
  sized(&latent_, slots * rank);
  for_each_row(pool, slots, [&](int64_t row) {
    for (int64_t i = row * rank; i < (row + 1) * rank; ++i) {
      projected_.data()[i] = sigmoid(projected_.data()[i] + parameters_.gate_bias->data()[i - row * rank]);
      latent_.data()[i] = projected_.data()[i] * token_.data()[i];
    }
  });
}

// The inputs [s; e; h] without s, which recur() fills in, and their share of the projection.
void SequentialHead::forward_rnn(ThreadPool& pool, const TrainBatch& batch, const float* states) {
  const int64_t slots = batch.slots(), rank = config_.rank, hidden = config_.backbone.hidden;
  const int64_t width = 2 * rank + hidden;
  sized(&joined_, slots * width);
  for_each_row(pool, slots, [&](int64_t row) {
    float* out = joined_.data() + row * width;
    std::fill_n(out, rank, 0.0f);
    std::copy_n(token_.data() + row * rank, rank, out + rank);
    std::copy_n(states + row * hidden, hidden, out + 2 * rank);
  });
  linear(pool, slots, *parameters_.joint, joined_.data(), sized(&projected_, slots * 3 * rank));
  sized(&latent_, slots * rank);
  pool.run(static_cast<int>(batch.blocks.size()), [&](int i) { recur(batch.blocks[static_cast<size_t>(i)]); });
}

void SequentialHead::recur(const TrainBlock& block) {
  const int64_t rank = config_.rank, width = 2 * rank + config_.backbone.hidden;
  std::vector<float> state(static_cast<size_t>(rank), 0.0f);
  for (int64_t row = block.first_slot; row < block.first_slot + block.slots; ++row) {
    float* projected = projected_.data() + row * 3 * rank;
    std::copy(state.begin(), state.end(), joined_.data() + row * width);
    for (int64_t j = 0; j < 3 * rank; ++j) {
      const float* weights = parameters_.joint->data() + j * width;
      float sum = projected[j] + parameters_.joint_bias->data()[j];
      for (int64_t i = 0; i < rank; ++i) sum += weights[i] * state[static_cast<size_t>(i)];
      projected[j] = j < rank ? sigmoid(sum) : std::tanh(sum);
    }
    for (int64_t i = 0; i < rank; ++i) {
      const float gate = projected[i], candidate = projected[rank + i];
      state[static_cast<size_t>(i)] = gate * state[static_cast<size_t>(i)] + (1.0f - gate) * candidate;
      latent_.data()[row * rank + i] = projected[2 * rank + i];
    }
  }
}

void SequentialHead::backward(ThreadPool& pool, const TrainBatch& batch, const float* dlogits, float* dtoken,
                              float* dstates) {
  const int64_t slots = batch.slots(), rank = config_.rank;
  if (config_.head == DraftHead::kNone) return;
  if (config_.head == DraftHead::kMarkov) {
    linear_backward(pool, slots, *parameters_.markov_w2, token_.data(), dlogits, dtoken, true);
  } else {
    linear_backward(pool, slots, *parameters_.markov_w2, latent_.data(), dlogits, sized(&dlatent_, slots * rank),
                    false);
    if (config_.head == DraftHead::kGated) backward_gated(pool, slots, dtoken, dstates);
    if (config_.head == DraftHead::kRnn) backward_rnn(pool, batch, dtoken, dstates);
  }
  // A token may come several times: columns are shared out, rows go in order.
  constexpr int64_t kColumns = 32;
  float* gradient = parameters_.markov_w1->grad();
  pool.run(static_cast<int>((rank + kColumns - 1) / kColumns), [&](int task) {
    for (int64_t row = 0; row < slots; ++row) {
      float* to = gradient + batch.previous[static_cast<size_t>(row)] * rank;
      for (int64_t j = task * kColumns; j < std::min(rank, (task + 1) * kColumns); ++j) to[j] += dtoken[row * rank + j];
    }
  });
}

void SequentialHead::backward_gated(ThreadPool& pool, int64_t slots, float* dtoken, float* dstates) {
  const int64_t rank = config_.rank, hidden = config_.backbone.hidden, width = hidden + rank;
  sized(&dprojected_, slots * rank);
  for_each_row(pool, slots, [&](int64_t row) {
    for (int64_t i = row * rank; i < (row + 1) * rank; ++i) {
      const float gate = projected_.data()[i];
      dtoken[i] += dlatent_.data()[i] * gate;
      dprojected_.data()[i] = dlatent_.data()[i] * token_.data()[i] * gate * (1.0f - gate);
    }
  });
  linear_backward(pool, slots, *parameters_.gate, joined_.data(), dprojected_.data(), sized(&djoined_, slots * width),
                  false);
  add_over_rows(pool, slots, rank, parameters_.gate_bias->grad(),
                [&](int64_t row, int64_t j) { return dprojected_.data()[row * rank + j]; });
  for_each_row(pool, slots, [&](int64_t row) {
    const float* from = djoined_.data() + row * width;
    for (int64_t i = 0; i < hidden; ++i) dstates[row * hidden + i] += from[i];
    for (int64_t i = 0; i < rank; ++i) dtoken[row * rank + i] += from[hidden + i];
  });
}

// dprojected of a block's slots, last to first.
void SequentialHead::recur_back(const TrainBlock& block) {
  const int64_t rank = config_.rank, width = 2 * rank + config_.backbone.hidden;
  std::vector<float> dstate(static_cast<size_t>(rank), 0.0f);
  for (int64_t row = block.first_slot + block.slots - 1; row >= block.first_slot; --row) {
    const float *projected = projected_.data() + row * 3 * rank, *before = joined_.data() + row * width;
    float* out = dprojected_.data() + row * 3 * rank;
    for (int64_t i = 0; i < rank; ++i) {
      const float gate = projected[i], candidate = projected[rank + i], last = projected[2 * rank + i];
      float& d = dstate[static_cast<size_t>(i)];
      out[i] = d * (before[i] - candidate) * gate * (1.0f - gate);
      out[rank + i] = d * (1.0f - gate) * (1.0f - candidate * candidate);
      out[2 * rank + i] = dlatent_.data()[row * rank + i] * (1.0f - last * last);
      d *= gate;
    }
    for (int64_t j = 0; j < 3 * rank; ++j) {
      const float* weights = parameters_.joint->data() + j * width;
      for (int64_t i = 0; i < rank; ++i) dstate[static_cast<size_t>(i)] += out[j] * weights[i];
    }
  }
}

void SequentialHead::backward_rnn(ThreadPool& pool, const TrainBatch& batch, float* dtoken, float* dstates) {
  const int64_t slots = batch.slots(), rank = config_.rank, hidden = config_.backbone.hidden;
  const int64_t width = 2 * rank + hidden;
  sized(&dprojected_, slots * 3 * rank);
  pool.run(static_cast<int>(batch.blocks.size()), [&](int i) { recur_back(batch.blocks[static_cast<size_t>(i)]); });
  linear_backward(pool, slots, *parameters_.joint, joined_.data(), dprojected_.data(), sized(&djoined_, slots * width),
                  false);
  add_over_rows(pool, slots, 3 * rank, parameters_.joint_bias->grad(),
                [&](int64_t row, int64_t j) { return dprojected_.data()[row * 3 * rank + j]; });
  for_each_row(pool, slots, [&](int64_t row) {
    const float* from = djoined_.data() + row * width;
    for (int64_t i = 0; i < rank; ++i) dtoken[row * rank + i] += from[rank + i];
    for (int64_t i = 0; i < hidden; ++i) dstates[row * hidden + i] += from[2 * rank + i];
  });
}

}  // namespace dspark
