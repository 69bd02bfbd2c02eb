// Products and inputs of dspark_pass.h; attention is in dspark_attention.cc.
#include "draft/dspark_pass.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "draft/dspark_pass.inl"

namespace dspark {
namespace {

const PackedMatrix& head_of(const DsparkWeights& weights, const Model& target) {
  if (!weights.output.empty()) return weights.output;
  return weights.embedding.empty() ? target.weights().head_or_embedding() : weights.embedding;
}

}  // namespace

void ProductRows::resize(int rows_now, int64_t k_now) {
  rows = rows_now;
  k = k_now;
  floats.ensure(static_cast<size_t>(rows) * static_cast<size_t>(k));
  if (k % kPiece == 0) quantised.resize(rows, k);
}

// Rows whose k is no multiple of 32 only meet float weights.
void ProductRows::quantise(const Ops& ops, const MatmulKernels& kernels, int row_index) {
  if (k % kPiece != 0) return;
  ops.quantise(row(row_index), k, quantised.row(row_index),
               kernels.wants_wide ? quantised.wide_row(row_index) : nullptr);
}

DsparkPass::DsparkPass(const DsparkConfig& config, const DsparkWeights& weights, const Model& target, DType kv_type,
                       int64_t kv_offset, ThreadPool& pool, Isa isa)
    : config_(config),
      shape_(config.backbone),
      weights_(weights),
      embedding_(weights.embedding.empty() ? target.weights().embedding : weights.embedding),
      head_(head_of(weights, target)),
      embedding_scale_(
          config.embedding_scale.value_or(weights.embedding.empty() ? target.config().embedding_scale : 1.0f)),
      kv_{kv_type, config.backbone.kv_heads, config.backbone.head_dim},
      slot_kv_{DType::kF32, 1, config.backbone.head_dim},
      kv_offset_(kv_offset),
      pool_(pool),
      matmul_(matmul_kernels(isa)),
      ops_(ops(isa)),
      frequencies_(rope_frequencies(config.backbone.rope, config.backbone.head_dim)) {}

void DsparkPass::inject(std::span<const ComputedRow> rows, const float* hidden, int hidden_rows) {
  if (rows.empty()) return;
  const int count = static_cast<int>(rows.size());
  const int layers = shape_.layers, kv_dim = shape_.kv_dim(), dim = shape_.head_dim;
  positions_.clear();
  for (const ComputedRow& row : rows) positions_.push_back(row.position);
  rotations(count);
  features_.resize(count, config_.features());
  for_each_row(count, [&](int i) {
    for (size_t f = 0; f < config_.target_layers.size(); ++f) {
      const int64_t from = static_cast<int64_t>(f) * hidden_rows + rows[static_cast<size_t>(i)].row;
      std::memcpy(features_.row(i) + static_cast<int64_t>(f) * shape_.hidden, hidden + from * shape_.hidden,
                  static_cast<size_t>(shape_.hidden) * sizeof(float));
    }
    features_.quantise(ops_, matmul_, i);
  });
  x_.ensure(static_cast<size_t>(count) * static_cast<size_t>(shape_.hidden));
  const MatmulJob fuse = {&weights_.fc, x_.data(), shape_.hidden};
  matmul(pool_, matmul_, features_.input(), {&fuse, 1});
  rows_ = count;
  normalise(weights_.hidden_norm, &h_);
  const int64_t part = int64_t{count} * kv_dim;
  context_kv_.ensure(static_cast<size_t>(2 * layers * part));
  std::vector<MatmulJob> jobs;
  for (int l = 0; l < layers; ++l) {
    const LayerWeights& layer = weights_.layers[static_cast<size_t>(l)];
    jobs.push_back({&layer.k.weights, context_kv_.data() + 2 * l * part, kv_dim});
    jobs.push_back({&layer.v.weights, context_kv_.data() + (2 * l + 1) * part, kv_dim});
  }
  matmul(pool_, matmul_, h_.input(), jobs);
  for_each_row(count, [&](int i) {
    const ComputedRow& row = rows[static_cast<size_t>(i)];
    const float* cos = cos_.data() + int64_t{i} * (dim / 2);
    const float* sin = sin_.data() + int64_t{i} * (dim / 2);
    for (int l = 0; l < layers; ++l) {
      float* keys = context_kv_.data() + 2 * l * part + int64_t{i} * kv_dim;
      const NormWeights& norm = weights_.layers[static_cast<size_t>(l)].k_norm;
      uint8_t* tile = row.block + kv_offset_ + l * kv_.tile_bytes();
      for (int head = 0; head < shape_.kv_heads; ++head) {
        float* key = keys + head * dim;
        ops_.rms_norm(key, norm.data(), dim, shape_.norm_eps, key);
        ops_.rope(key, cos, sin, dim);
        ops_.store_kv(kv_, tile, head, row.position % kTilePositions, key, key + part);
      }
    }
  });
}

// out = norm(x), ready for products.
void DsparkPass::normalise(const NormWeights& norm, ProductRows* out) {
  out->resize(rows_, shape_.hidden);
  for_each_row(rows_, [&](int row) {
    ops_.rms_norm(x_.data() + int64_t{row} * shape_.hidden, norm.data(), shape_.hidden, shape_.norm_eps, out->row(row));
    out->quantise(ops_, matmul_, row);
  });
}

void DsparkPass::embed(int32_t token, float* out) const {
  DSPARK_CHECK(token >= 0 && token < shape_.vocab, "token {} of {}", token, shape_.vocab);
  embedding_.dequantise_row(token, out);
  if (embedding_scale_ != 1.0f) ops_.scale(out, embedding_scale_, shape_.hidden);
}

void DsparkPass::embed_inputs(std::span<const DraftBlock> blocks) {
  x_.ensure(static_cast<size_t>(rows_) * static_cast<size_t>(shape_.hidden));
  for (size_t b = 0; b < blocks.size(); ++b) {
    float* x = x_.data() + int64_t{first_rows_[b]} * shape_.hidden;
    embed(blocks[b].token, x);
    for (int j = 1; j < blocks[b].slots; ++j) {
      std::memcpy(x + int64_t{j} * shape_.hidden, weights_.mask.data(),
                  static_cast<size_t>(shape_.hidden) * sizeof(float));
    }
  }
  if (config_.lookup) add_lookups(blocks);
}

// The token proposed for anchor + m conditions slot m as its own, and slot m - 1 as the next one.
void DsparkPass::add_lookups(std::span<const DraftBlock> blocks) {
  struct Proposed {
    int row;   // of the slot before it
    bool own;  // there is a slot at its position
    int32_t token;
  };
  std::vector<Proposed> proposed;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const int count = std::min(blocks[b].slots, static_cast<int>(blocks[b].proposal.size()));
    for (int m = 1; m <= count; ++m) {
      proposed.push_back({first_rows_[b] + m - 1, m < blocks[b].slots, blocks[b].proposal[static_cast<size_t>(m - 1)]});
    }
  }
  if (proposed.empty()) return;
  const int count = static_cast<int>(proposed.size()), hidden = shape_.hidden;
  proposals_.resize(count, hidden);
  for_each_row(count, [&](int i) {
    embed(proposed[static_cast<size_t>(i)].token, proposals_.row(i));
    proposals_.quantise(ops_, matmul_, i);
  });
  looked_up_.ensure(static_cast<size_t>(2 * count) * static_cast<size_t>(hidden));
  float* own = looked_up_.data();
  float* next = own + int64_t{count} * hidden;
  const MatmulJob jobs[] = {{&weights_.lookup_token, own, hidden}, {&weights_.lookup_next, next, hidden}};
  matmul(pool_, matmul_, proposals_.input(), jobs);
  // In this order each slot gets its own token's part first.
  for (int i = 0; i < count; ++i) {
    const Proposed& p = proposed[static_cast<size_t>(i)];
    ops_.add(x_.data() + int64_t{p.row} * hidden, next + int64_t{i} * hidden, hidden);
    if (p.own) ops_.add(x_.data() + int64_t{p.row + 1} * hidden, own + int64_t{i} * hidden, hidden);
  }
}

void DsparkPass::add_projected() {
  for_each_row(rows_, [&](int row) {
    ops_.add(x_.data() + int64_t{row} * shape_.hidden, projected_.data() + int64_t{row} * shape_.hidden, shape_.hidden);
  });
}

void DsparkPass::mlp(const LayerWeights& weights) {
  const int ffn = shape_.ffn;
  gate_.ensure(static_cast<size_t>(rows_) * static_cast<size_t>(ffn));
  up_.ensure(static_cast<size_t>(rows_) * static_cast<size_t>(ffn));
  const MatmulJob jobs[] = {{&weights.gate.weights, gate_.data(), ffn}, {&weights.up.weights, up_.data(), ffn}};
  const PackedMatrix* const down[] = {&weights.down.weights};
  matmul(pool_, matmul_, h_.input(), jobs, down);
  mlp_.resize(rows_, ffn);
  for_each_row(rows_, [&](int row) {
    ops_.gated(shape_.gate, gate_.data() + int64_t{row} * ffn, up_.data() + int64_t{row} * ffn, ffn, mlp_.row(row));
    mlp_.quantise(ops_, matmul_, row);
  });
  const MatmulJob job = {&weights.down.weights, projected_.data(), shape_.hidden};
  matmul(pool_, matmul_, mlp_.input(), {&job, 1});
  add_projected();
}

void DsparkPass::layer(std::span<const DraftBlock> blocks, int index) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(index)];
  normalise(weights.attention_norm, &h_);
  const MatmulJob jobs[] = {
      {&weights.q.weights, q_.data(), shape_.q_dim()},
      {&weights.k.weights, k_.data(), shape_.kv_dim()},
      {&weights.v.weights, v_.data(), shape_.kv_dim()},
  };
  const PackedMatrix* const output[] = {&weights.output.weights};
  matmul(pool_, matmul_, h_.input(), jobs, output);
  attention(blocks, index);
  const MatmulJob job = {&weights.output.weights, projected_.data(), shape_.hidden};
  const PackedMatrix* const after[] = {&weights.gate.weights, &weights.up.weights};
  matmul(pool_, matmul_, attended_.input(), {&job, 1}, after);
  add_projected();
  normalise(weights.ffn_norm, &h_);
  mlp(weights);
}

void DsparkPass::run(std::span<const DraftBlock> blocks) {
  rows_ = 0;
  positions_.clear();
  first_rows_.clear();
  groups_.clear();
  prediction_rows_.clear();
  const int most = std::max(1, kMaxQueries / shape_.group());
  for (size_t b = 0; b < blocks.size(); ++b) {
    const int slots = blocks[b].slots;
    DSPARK_CHECK(slots >= 1 && slots <= config_.block_size, "{} slots of {}", slots, config_.block_size);
    first_rows_.push_back(rows_);
    for (int j = 0; j < slots; ++j) {
      positions_.push_back(blocks[b].anchor + j);
      if (config_.sample_from_anchor || j > 0) prediction_rows_.push_back(rows_ + j);
    }
    for (int j = 0; j < slots; j += most) groups_.push_back({static_cast<int>(b), j, std::min(most, slots - j)});
    rows_ += slots;
  }
  const size_t rows = static_cast<size_t>(rows_);
  projected_.ensure(rows * static_cast<size_t>(shape_.hidden));
  q_.ensure(rows * static_cast<size_t>(shape_.q_dim()));
  k_.ensure(rows * static_cast<size_t>(shape_.kv_dim()));
  v_.ensure(rows * static_cast<size_t>(shape_.kv_dim()));
  rotations(rows_);
  embed_inputs(blocks);
  for (int l = 0; l < shape_.layers; ++l) layer(blocks, l);
  normalise(weights_.output_norm, &state_);
  const int predictions = static_cast<int>(prediction_rows_.size());
  logits_.ensure(static_cast<size_t>(predictions) * static_cast<size_t>(config_.draft_vocab));
  if (predictions == 0) return;
  MatmulInput input = state_.input();
  input.rows = predictions;
  input.ids = prediction_rows_.data();
  const MatmulJob job = {&head_, logits_.data(), config_.draft_vocab};
  matmul(pool_, matmul_, input, {&job, 1});
}

}  // namespace dspark
