// See drafter_graph.h.
#include "train/drafter_graph.h"

#include <algorithm>

#include "train/linear.h"
#include "train/rms_norm.h"
#include "train/row_tasks.h"

namespace dspark {
namespace {

float* sized(Buffer<float>* buffer, int64_t count) {
  buffer->ensure(static_cast<size_t>(count));
  return buffer->data();
}
float* zeroed(Buffer<float>* buffer, int64_t count) {
  std::fill_n(sized(buffer, count), count, 0.0f);
  return buffer->data();
}

}  // namespace

DrafterGraph::DrafterGraph(const DsparkConfig& config, const DraftVocabulary& vocabulary, const FrozenTarget& target,
                           DrafterParameters* parameters, ThreadPool& pool, const Ops& ops)
    : config_(config),
      vocabulary_(vocabulary),
      target_(target),
      parameters_(*parameters),
      pool_(pool),
      ops_(ops),
      rope_(config.backbone.rope, config.backbone.head_dim),
      head_(config, parameters) {
  for (LayerParameters& layer : parameters_.layers) layers_.push_back(std::make_unique<DrafterLayer>(config, &layer));
}

// The slots' inputs: anchor or mask, and what a lookup proposes.
void DrafterGraph::embed(const TrainBatch& batch) {
  const int64_t slots = batch.slots(), hidden = config_.backbone.hidden;
  const auto row_of = [&](int32_t token) { return target_.embedding.data() + token * hidden; };
  const auto copy_or_zero = [&](int32_t token, float* out) {
    if (token >= 0) {
      std::copy_n(row_of(token), hidden, out);
    } else {
      std::fill_n(out, hidden, 0.0f);
    }
  };
  sized(&x_, slots * hidden);
  if (config_.lookup) {
    sized(&proposed_token_, slots * hidden);
    sized(&proposed_next_, slots * hidden);
  }
  for_each_row(pool_, slots, [&](int64_t slot) {
    const auto i = static_cast<size_t>(slot);
    const float* from = batch.inputs[i] >= 0 ? row_of(batch.inputs[i]) : parameters_.mask->data();
    std::copy_n(from, hidden, x_.data() + slot * hidden);
    if (!config_.lookup) return;
    copy_or_zero(batch.lookup_token[i], proposed_token_.data() + slot * hidden);
    copy_or_zero(batch.lookup_next[i], proposed_next_.data() + slot * hidden);
  });
  if (!config_.lookup) return;
  linear(pool_, slots, *parameters_.lookup_token, proposed_token_.data(), x_.data(), true);
  linear(pool_, slots, *parameters_.lookup_next, proposed_next_.data(), x_.data(), true);
}

void DrafterGraph::forward(const TrainBatch& batch) {
  const int64_t slots = batch.slots(), rows = batch.context(), hidden = config_.backbone.hidden;
  const float eps = config_.backbone.norm_eps;
  for (const int32_t position : batch.positions) rope_.reach(position);
  for (const int32_t position : batch.context_positions) rope_.reach(position);
  linear(pool_, rows, *parameters_.fc, batch.features.data(), sized(&projected_, rows * hidden));
  rms_norm(pool_, rows, hidden, projected_.data(), parameters_.hidden_norm->data(), eps,
           sized(&context_, rows * hidden), sized(&inverse_context_, rows));
  embed(batch);
  for (auto& layer : layers_) layer->forward(pool_, batch, rope_, context_.data(), x_.data());
  std::copy_n(x_.data(), slots * hidden, sized(&x_out_, slots * hidden));
  rms_norm(pool_, slots, hidden, x_out_.data(), parameters_.output_norm->data(), eps, sized(&states_, slots * hidden),
           sized(&inverse_out_, slots));
  const int64_t vocab = vocabulary_.rows();
  sized(&logits_, slots * vocab);
  const float* head = parameters_.output != nullptr ? parameters_.output->data() : frozen_head();
  multiply(&pool_, slots, vocab, hidden, {states_.data(), hidden}, transposed(head, hidden), logits_.data(), vocab,
           false);
  head_.forward(pool_, batch, states_.data(), logits_.data());
  if (parameters_.confidence == nullptr) return;
  sized(&confidences_, slots);
  for_each_row(pool_, slots, [&](int64_t slot) {
    const float* weights = parameters_.confidence->data();
    float sum = parameters_.confidence_bias->data()[0];
    for (int64_t i = 0; i < hidden; ++i) sum += weights[i] * states_.data()[slot * hidden + i];
    for (int64_t i = 0; config_.confidence_sees_token && i < config_.rank; ++i) {
      sum += weights[hidden + i] * head_.token()[slot * config_.rank + i];
    }
    confidences_.data()[slot] = sum;
  });
}

// From the gradients of logits and confidences to that of the states.
void DrafterGraph::backward_heads(const TrainBatch& batch) {
  const int64_t slots = batch.slots(), hidden = config_.backbone.hidden, vocab = vocabulary_.rows();
  const int64_t rank = config_.rank;
  sized(&dstates_, slots * hidden);
  if (parameters_.output != nullptr) {
    linear_backward(pool_, slots, *parameters_.output, states_.data(), logits_.data(), dstates_.data(), false);
  } else {
    multiply(&pool_, slots, hidden, vocab, {logits_.data(), vocab}, {frozen_head(), hidden}, dstates_.data(), hidden,
             false);
  }
  zeroed(&dtoken_, slots * rank);
  if (parameters_.confidence != nullptr) {
    const float *weights = parameters_.confidence->data(), *dc = confidences_.data();
    for_each_row(pool_, slots, [&](int64_t slot) {
      for (int64_t i = 0; i < hidden; ++i) dstates_.data()[slot * hidden + i] += dc[slot] * weights[i];
      for (int64_t i = 0; config_.confidence_sees_token && i < rank; ++i) {
        dtoken_.data()[slot * rank + i] += dc[slot] * weights[hidden + i];
      }
    });
    float* gradient = parameters_.confidence->grad();
    add_over_rows(pool_, slots, hidden, gradient,
                  [&](int64_t slot, int64_t i) { return dc[slot] * states_.data()[slot * hidden + i]; });
    if (config_.confidence_sees_token) {
      add_over_rows(pool_, slots, rank, gradient + hidden,
                    [&](int64_t slot, int64_t i) { return dc[slot] * head_.token()[slot * rank + i]; });
    }
    add_over_rows(pool_, slots, 1, parameters_.confidence_bias->grad(),
                  [&](int64_t slot, int64_t) { return dc[slot]; });
  }
  head_.backward(pool_, batch, logits_.data(), dtoken_.data(), dstates_.data());
}

// From dx at the slots' inputs to what is learnt there.
void DrafterGraph::backward_inputs(const TrainBatch& batch) {
  const int64_t slots = batch.slots(), hidden = config_.backbone.hidden;
  add_over_rows(pool_, slots, hidden, parameters_.mask->grad(), [&](int64_t slot, int64_t i) {
    return batch.inputs[static_cast<size_t>(slot)] < 0 ? dx_.data()[slot * hidden + i] : 0.0f;
  });
  if (!config_.lookup) return;
  linear_backward(pool_, slots, *parameters_.lookup_token, proposed_token_.data(), dx_.data(), nullptr, false);
  linear_backward(pool_, slots, *parameters_.lookup_next, proposed_next_.data(), dx_.data(), nullptr, false);
}

void DrafterGraph::backward(const TrainBatch& batch) {
  const int64_t slots = batch.slots(), rows = batch.context(), hidden = config_.backbone.hidden;
  backward_heads(batch);
  zeroed(&dx_, slots * hidden);
  rms_norm_backward(pool_, slots, hidden, x_out_.data(), parameters_.output_norm->data(), inverse_out_.data(),
                    dstates_.data(), dx_.data(), parameters_.output_norm->grad());
  zeroed(&dcontext_, rows * hidden);
  for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
    (*layer)->backward(pool_, batch, rope_, context_.data(), dx_.data(), dcontext_.data());
  }
  backward_inputs(batch);
  zeroed(&dprojected_, rows * hidden);
  rms_norm_backward(pool_, rows, hidden, projected_.data(), parameters_.hidden_norm->data(), inverse_context_.data(),
                    dcontext_.data(), dprojected_.data(), parameters_.hidden_norm->grad());
  linear_backward(pool_, rows, *parameters_.fc, batch.features.data(), dprojected_.data(), nullptr, false);
}

LossSums DrafterGraph::evaluate(const TrainBatch& batch, const LossOptions& options) {
  forward(batch);
  return draft_loss(pool_, ops_, vocabulary_, batch, options, logits_.data(),
                    parameters_.confidence != nullptr ? confidences_.data() : nullptr);
}

LossSums DrafterGraph::train(const TrainBatch& batch, const LossOptions& options) {
  const LossSums sums = evaluate(batch, options);
  backward(batch);
  return sums;
}

std::vector<float> DrafterGraph::logits(const TrainBatch& batch) {
  forward(batch);
  return {logits_.data(), logits_.data() + batch.slots() * vocabulary_.rows()};
}

}  // namespace dspark
