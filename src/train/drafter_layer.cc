// See drafter_layer.h.
#include "train/drafter_layer.h"

#include <algorithm>

#include "train/linear.h"
#include "train/rms_norm.h"
#include "train/swiglu.h"

namespace dspark {
namespace {

float* zeroed(Buffer<float>* buffer, int64_t count) {
  buffer->ensure(static_cast<size_t>(count));
  std::fill_n(buffer->data(), count, 0.0f);
  return buffer->data();
}
float* sized(Buffer<float>* buffer, int64_t count) {
  buffer->ensure(static_cast<size_t>(count));
  return buffer->data();
}

}  // namespace

DrafterLayer::DrafterLayer(const DsparkConfig& config, LayerParameters* parameters)
    : config_(config),
      parameters_(*parameters),
      attention_({config.backbone.heads, config.backbone.kv_heads, config.backbone.head_dim, config.causal}) {}

void DrafterLayer::rotate(ThreadPool& pool, const RopeTable& rope, int64_t rows, int heads, const int32_t* positions,
                          const Parameter& norm, Rotated* values) const {
  const int64_t dim = config_.backbone.head_dim;
  rms_norm(pool, rows * heads, dim, values->raw.data(), norm.data(), config_.backbone.norm_eps,
           sized(&values->ready, rows * heads * dim), sized(&values->inverse, rows * heads));
  rope.rotate(pool, rows, heads, positions, false, values->ready.data());
}

void DrafterLayer::rotate_back(ThreadPool& pool, const RopeTable& rope, int64_t rows, int heads,
                               const int32_t* positions, Parameter* norm, const Rotated& values,
                               Buffer<float>* gradient) {
  const int64_t dim = config_.backbone.head_dim;
  rope.rotate(pool, rows, heads, positions, true, gradient->data());
  zeroed(&scratch_, rows * heads * dim);
  rms_norm_backward(pool, rows * heads, dim, values.raw.data(), norm->data(), values.inverse.data(), gradient->data(),
                    scratch_.data(), norm->grad());
  std::swap(scratch_, *gradient);
}

AttentionTensors<const float> DrafterLayer::attention_inputs() const {
  return {q_.ready.data(), k_.ready.data(), v_.data(), context_k_.ready.data(), context_v_.data()};
}

void DrafterLayer::forward(ThreadPool& pool, const TrainBatch& batch, const RopeTable& rope, const float* context,
                           float* x) {
  const ModelConfig& shape = config_.backbone;
  const int64_t slots = batch.slots(), rows = batch.context(), hidden = shape.hidden;
  const LayerParameters& p = parameters_;
  std::copy_n(x, slots * hidden, sized(&x_in_, slots * hidden));
  rms_norm(pool, slots, hidden, x, p.attention_norm->data(), shape.norm_eps, sized(&h_, slots * hidden),
           sized(&inverse_in_, slots));
  linear(pool, slots, *p.q, h_.data(), sized(&q_.raw, slots * shape.q_dim()));
  linear(pool, slots, *p.k, h_.data(), sized(&k_.raw, slots * shape.kv_dim()));
  linear(pool, slots, *p.v, h_.data(), sized(&v_, slots * shape.kv_dim()));
  linear(pool, rows, *p.k, context, sized(&context_k_.raw, rows * shape.kv_dim()));
  linear(pool, rows, *p.v, context, sized(&context_v_, rows * shape.kv_dim()));
  rotate(pool, rope, slots, shape.heads, batch.positions.data(), *p.q_norm, &q_);
  rotate(pool, rope, slots, shape.kv_heads, batch.positions.data(), *p.k_norm, &k_);
  rotate(pool, rope, rows, shape.kv_heads, batch.context_positions.data(), *p.k_norm, &context_k_);
  attention_.forward(pool, batch.blocks, attention_inputs(), sized(&attended_, slots * shape.q_dim()));
  linear(pool, slots, *p.output, attended_.data(), x, true);
  std::copy_n(x, slots * hidden, sized(&x_mid_, slots * hidden));
  rms_norm(pool, slots, hidden, x, p.ffn_norm->data(), shape.norm_eps, sized(&h_mid_, slots * hidden),
           sized(&inverse_mid_, slots));
  linear(pool, slots, *p.gate, h_mid_.data(), sized(&gate_, slots * shape.ffn));
  linear(pool, slots, *p.up, h_mid_.data(), sized(&up_, slots * shape.ffn));
  swiglu(pool, slots * shape.ffn, gate_.data(), up_.data(), sized(&gated_, slots * shape.ffn));
  linear(pool, slots, *p.down, gated_.data(), x, true);
}

void DrafterLayer::backward_mlp(ThreadPool& pool, int64_t slots, float* dx) {
  const int64_t hidden = config_.backbone.hidden, ffn = config_.backbone.ffn;
  const LayerParameters& p = parameters_;
  linear_backward(pool, slots, *p.down, gated_.data(), dx, sized(&dgated_, slots * ffn), false);
  swiglu_backward(pool, slots * ffn, gate_.data(), up_.data(), dgated_.data(), sized(&dgate_, slots * ffn),
                  sized(&dup_, slots * ffn));
  linear_backward(pool, slots, *p.gate, h_mid_.data(), dgate_.data(), sized(&dh_, slots * hidden), false);
  linear_backward(pool, slots, *p.up, h_mid_.data(), dup_.data(), dh_.data(), true);
  rms_norm_backward(pool, slots, hidden, x_mid_.data(), p.ffn_norm->data(), inverse_mid_.data(), dh_.data(), dx,
                    p.ffn_norm->grad());
}

void DrafterLayer::backward(ThreadPool& pool, const TrainBatch& batch, const RopeTable& rope, const float* context,
                            float* dx, float* dcontext) {
  const ModelConfig& shape = config_.backbone;
  const int64_t slots = batch.slots(), rows = batch.context(), hidden = shape.hidden;
  const LayerParameters& p = parameters_;
  backward_mlp(pool, slots, dx);
  linear_backward(pool, slots, *p.output, attended_.data(), dx, sized(&dattended_, slots * shape.q_dim()), false);
  const AttentionTensors<float> gradients = {
      zeroed(&dq_, slots * shape.q_dim()), zeroed(&dk_, slots * shape.kv_dim()), zeroed(&dv_, slots * shape.kv_dim()),
      zeroed(&dcontext_k_, rows * shape.kv_dim()), zeroed(&dcontext_v_, rows * shape.kv_dim())};
  attention_.backward(pool, batch.blocks, attention_inputs(), dattended_.data(), gradients);
  rotate_back(pool, rope, slots, shape.heads, batch.positions.data(), p.q_norm, q_, &dq_);
  rotate_back(pool, rope, slots, shape.kv_heads, batch.positions.data(), p.k_norm, k_, &dk_);
  rotate_back(pool, rope, rows, shape.kv_heads, batch.context_positions.data(), p.k_norm, context_k_, &dcontext_k_);
  linear_backward(pool, rows, *p.k, context, dcontext_k_.data(), dcontext, true);
  linear_backward(pool, rows, *p.v, context, dcontext_v_.data(), dcontext, true);
  linear_backward(pool, slots, *p.q, h_.data(), dq_.data(), sized(&dh_, slots * hidden), false);
  linear_backward(pool, slots, *p.k, h_.data(), dk_.data(), dh_.data(), true);
  linear_backward(pool, slots, *p.v, h_.data(), dv_.data(), dh_.data(), true);
  rms_norm_backward(pool, slots, hidden, x_in_.data(), p.attention_norm->data(), inverse_in_.data(), dh_.data(), dx,
                    p.attention_norm->grad());
}

}  // namespace dspark
