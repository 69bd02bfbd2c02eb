// The frame of a step: entry, norms, projections and exit. Attention is in step_attention.cc, the MLPs are in
// step_mlp.cc. The step's thread; loops run on the pool.
#include "model/step.h"

#include <chrono>
#include <cstring>

#include "base/check.h"
#include "model/step_internal.h"

namespace dspark {

const char* phase_name(Phase phase) {
  constexpr const char* kNames[] = {"embed", "norm", "qkv", "attention", "output", "mlp", "head"};
  return kNames[static_cast<size_t>(phase)];
}

Step::Step(const ModelConfig& config, const KvLayout& kv, ThreadPool& pool, Isa isa)
    : config_(config),
      kv_(kv),
      pool_(pool),
      matmul_(matmul_kernels(isa)),
      ops_(ops(isa)),
      frequencies_(rope_frequencies(config.rope, config.head_dim)),
      local_frequencies_(rope_frequencies(config.local_rope, config.head_dim)),
      routing_(static_cast<size_t>(config.experts)) {}

void Step::begin(const StepInput& input) {
  input_ = input;
  rows_ = static_cast<int>(input.rows.size());
  hidden_kept_ = 0;
  unsettled_ = false;
  const size_t rows = input.rows.size();
  const size_t hidden = static_cast<size_t>(config_.hidden);
  x_.ensure(rows * hidden);
  h_.ensure(rows * hidden);
  q_.ensure(rows * static_cast<size_t>(config_.q_dim()));
  attention_.ensure(rows * static_cast<size_t>(config_.q_dim()));
  k_.ensure(rows * static_cast<size_t>(config_.kv_dim()));
  v_.ensure(rows * static_cast<size_t>(config_.kv_dim()));
  hidden_.ensure(input.hidden_layers.size() * rows * hidden);
  h_q_.resize(rows_, config_.hidden);
  attention_q_.resize(rows_, config_.q_dim());
  logit_rows_.clear();
  final_rows_.clear();
  for (int row = 0; row < rows_; ++row) {
    const StepRow& wants = input.rows[static_cast<size_t>(row)];
    if (wants.wants_logits) logit_rows_.push_back(row);
    if (wants.wants_logits || wants.wants_final) final_rows_.push_back(row);
  }
  find_groups();
  compute_rotations(frequencies_, &cos_, &sin_);
  if (!config_.local.empty()) compute_rotations(local_frequencies_, &local_cos_, &local_sin_);
}

void Step::embed(const PackedMatrix& embedding) {
  PhaseClock clock(*this, Phase::kEmbed);
  for_each_row(rows_, [&](int row) {
    float* x = x_.data() + int64_t{row} * config_.hidden;
    const int32_t token = input_.rows[static_cast<size_t>(row)].token;
    DSPARK_CHECK(token >= 0 && token < config_.vocab, "token {} of {}", token, config_.vocab);
    embedding.dequantise_row(token, x);
    if (config_.embedding_scale != 1.0f) ops_.scale(x, config_.embedding_scale, config_.hidden);
  });
}

void Step::keep_hidden(int layer) {
  const size_t kept = static_cast<size_t>(hidden_kept_);
  if (kept >= input_.hidden_layers.size() || input_.hidden_layers[kept] != layer) return;
  settle();
  const size_t floats = static_cast<size_t>(rows_) * static_cast<size_t>(config_.hidden);
  std::memcpy(hidden_.data() + kept * floats, x_.data(), floats * sizeof(float));
  ++hidden_kept_;
}

void Step::norm_row(const NormWeights& weights, int row) {
  float* h = h_.data() + int64_t{row} * config_.hidden;
  ops_.rms_norm(x_.data() + int64_t{row} * config_.hidden, weights.data(), config_.hidden, config_.norm_eps, h);
  quantise_row(ops_, matmul_, h, config_.hidden, row, &h_q_);
}

void Step::norm(const NormWeights& weights) {
  PhaseClock clock(*this, Phase::kNorm);
  for_each_row(rows_, [&](int row) {
    if (unsettled_) add_projected(row);
    norm_row(weights, row);
  });
  unsettled_ = false;
}

void Step::project_qkv(const LayerWeights& weights) {
  PhaseClock clock(*this, Phase::kQkv);
  const MatmulJob jobs[] = {
      {&weights.q.weights, q_.data(), config_.q_dim(), weights.q.bias_or_null()},
      {&weights.k.weights, k_.data(), config_.kv_dim(), weights.k.bias_or_null()},
      {&weights.v.weights, v_.data(), config_.kv_dim(), weights.v.bias_or_null()},
  };
  const PackedMatrix* const next[] = {&weights.output.weights};
  matmul(pool_, matmul_, input_of(rows_, h_q_, h_.data(), config_.hidden), jobs, next);
}

void Step::add_later(const NormWeights& post_norm) {
  unsettled_ = true;
  post_norm_ = post_norm.empty() ? nullptr : post_norm.data();
}

void Step::add_projected(int row) {
  float* y = h_.data() + int64_t{row} * config_.hidden;
  if (post_norm_ != nullptr) ops_.rms_norm(y, post_norm_, config_.hidden, config_.norm_eps, y);
  ops_.add(x_.data() + int64_t{row} * config_.hidden, y, config_.hidden);
}

void Step::settle() {
  if (!unsettled_) return;
  for_each_row(rows_, [&](int row) { add_projected(row); });
  unsettled_ = false;
}

void Step::project_output(const LayerWeights& weights, const NormWeights& post_norm) {
  PhaseClock clock(*this, Phase::kOutput);
  const Linear& output = weights.output;
  const MatmulJob job = {&output.weights, h_.data(), config_.hidden, output.bias_or_null()};
  const PackedMatrix* const mlp[] = {&weights.gate.weights, &weights.up.weights};
  const NextWeights next = weights.gate.weights.empty() ? NextWeights() : NextWeights(mlp);
  matmul(pool_, matmul_, input_of(rows_, attention_q_, attention_.data(), config_.q_dim()), {&job, 1}, next);
  add_later(post_norm);
}

StepOutput Step::head(const NormWeights& norm, const PackedMatrix& weights) {
  PhaseClock clock(*this, Phase::kHead);
  const int wanted = static_cast<int>(logit_rows_.size());
  logits_.ensure(static_cast<size_t>(wanted) * static_cast<size_t>(config_.vocab));
  const int normed = static_cast<int>(final_rows_.size());
  for_each_row(normed, [&](int i) {
    const int row = final_rows_[static_cast<size_t>(i)];
    if (unsettled_) add_projected(row);
    norm_row(norm, row);
  });
  unsettled_ = false;
  if (wanted > 0) {
    MatmulInput input = input_of(wanted, h_q_, h_.data(), config_.hidden);
    input.ids = logit_rows_.data();
    const MatmulJob job = {&weights, logits_.data(), config_.vocab};
    matmul(pool_, matmul_, input, {&job, 1});
  }
  return {logits_.data(), hidden_.data(), h_.data()};
}

std::array<double, kPhases> Step::take_phase_seconds() { return std::exchange(phase_seconds_, {}); }

}  // namespace dspark
