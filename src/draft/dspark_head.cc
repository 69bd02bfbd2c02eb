// See dspark_head.h.
#include "draft/dspark_head.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/exact_math.h"

namespace dspark {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

float sigmoid(float x) { return static_cast<float>(1.0 / (1.0 + exact_exp(-static_cast<double>(x)))); }

uint64_t next_map_name() {
  static std::atomic<uint64_t> names{0};
  return ++names;
}

}  // namespace

DsparkHead::DsparkHead(const DsparkConfig& config, const DsparkWeights& weights, DsparkPass& pass, ThreadPool& pool,
                       Isa isa)
    : config_(config),
      weights_(weights),
      pass_(pass),
      pool_(pool),
      matmul_(matmul_kernels(isa)),
      ops_(ops(isa)),
      map_name_(next_map_name()) {}

// For every active draft the embedding of the token before and, for gate and cell, what they read.
void DsparkHead::fill_inputs(std::span<HeadDraft> drafts, int step) {
  const int active = static_cast<int>(active_.size());
  const int rank = config_.rank, hidden = config_.backbone.hidden;
  token_.ensure(static_cast<size_t>(active) * static_cast<size_t>(rank));
  const bool gated = config_.head == DraftHead::kGated, rnn = config_.head == DraftHead::kRnn;
  if (gated || rnn) inputs_.resize(active, hidden + (rnn ? 2 : 1) * rank);
  pool_.run(active, [&](int row) {
    const size_t index = active_[static_cast<size_t>(row)];
    const HeadDraft& draft = drafts[index];
    float* token = token_.data() + int64_t{row} * rank;
    weights_.markov_w1.dequantise_row(step == 0 ? draft.anchor : draft.tokens.back(), token);
    if (!gated && !rnn) return;
    const float* state = pass_.state(pass_.row_of(draft.first_prediction + step));
    float* out = inputs_.row(row);
    const auto put = [&](const float* from, int count) {
      std::memcpy(out, from, static_cast<size_t>(count) * sizeof(float));
      out += count;
    };
    if (rnn) put(recurrent_.data() + static_cast<int64_t>(index) * rank, rank);
    if (rnn) put(token, rank);
    put(state, hidden);
    if (gated) put(token, rank);
    inputs_.quantise(ops_, matmul_, row);
  });
}

void DsparkHead::gate_row(int row) {
  const int rank = config_.rank;
  const float* gate = projected_.data() + int64_t{row} * rank;
  const float* token = token_.data() + int64_t{row} * rank;
  for (int i = 0; i < rank; ++i) bias_input_.row(row)[i] = sigmoid(gate[i]) * token[i];
}

void DsparkHead::recur_row(int row, size_t draft) {
  const int rank = config_.rank;
  const float* gate = projected_.data() + int64_t{row} * 3 * rank;
  const float* candidate = gate + rank;
  const float* output = candidate + rank;
  float* state = recurrent_.data() + static_cast<int64_t>(draft) * rank;
  for (int i = 0; i < rank; ++i) {
    const float open = sigmoid(gate[i]);
    state[i] = open * state[i] + (1.0f - open) * static_cast<float>(exact_tanh(static_cast<double>(candidate[i])));
    bias_input_.row(row)[i] = static_cast<float>(exact_tanh(static_cast<double>(output[i])));
  }
}

// The bias of every active draft's logits.
void DsparkHead::compute_bias() {
  const int active = static_cast<int>(active_.size()), rank = config_.rank;
  const bool gated = config_.head == DraftHead::kGated, rnn = config_.head == DraftHead::kRnn;
  if (gated || rnn) {
    const Linear& linear = gated ? weights_.gate : weights_.joint;
    const int width = gated ? rank : 3 * rank;
    projected_.ensure(static_cast<size_t>(active) * static_cast<size_t>(width));
    const MatmulJob job = {&linear.weights, projected_.data(), width, linear.bias_or_null()};
    matmul(pool_, matmul_, inputs_.input(), {&job, 1});
  }
  bias_input_.resize(active, rank);
  pool_.run(active, [&](int row) {
    if (gated) {
      gate_row(row);
    } else if (rnn) {
      recur_row(row, active_[static_cast<size_t>(row)]);
    } else {
      std::memcpy(bias_input_.row(row), token_.data() + int64_t{row} * rank, static_cast<size_t>(rank) * sizeof(float));
    }
    bias_input_.quantise(ops_, matmul_, row);
  });
  bias_.ensure(static_cast<size_t>(active) * static_cast<size_t>(config_.draft_vocab));
  const MatmulJob job = {&weights_.markov_w2, bias_.data(), config_.draft_vocab};
  matmul(pool_, matmul_, bias_input_.input(), {&job, 1});
}

float DsparkHead::confidence(const float* state, const float* token) const {
  const int hidden = config_.backbone.hidden;
  double sum = static_cast<double>(weights_.confidence_bias);
  const auto add = [&](const float* x, const float* w, int count) {
    for (int i = 0; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(w[i]);
  };
  add(state, weights_.confidence.data(), hidden);
  if (config_.confidence_sees_token) add(token, weights_.confidence.data() + hidden, config_.rank);
  return static_cast<float>(sum);
}

// Over the whole vocabulary of the target. A worker's buffer is used again for the same map, whose tokens it holds
// already; the others stay -infinity.
const float* DsparkHead::target_logits(const float* logits) const {
  if (weights_.vocabulary.empty()) return logits;
  struct Spread {
    uint64_t map = 0;
    Buffer<float> logits;
  };
  thread_local Spread spread;
  if (spread.map != map_name_) {
    spread.logits.ensure(static_cast<size_t>(config_.backbone.vocab));
    std::fill_n(spread.logits.data(), config_.backbone.vocab, -kInfinity);
    spread.map = map_name_;
  }
  for (size_t i = 0; i < weights_.vocabulary.size(); ++i) {
    spread.logits[static_cast<size_t>(weights_.vocabulary[i])] = logits[i];
  }
  return spread.logits.data();
}

void DsparkHead::draw_one(HeadDraft& draft, int step, int row) {
  const int prediction = draft.first_prediction + step;
  float* logits = pass_.logits(prediction);
  if (config_.head != DraftHead::kNone) {
    ops_.add(logits, bias_.data() + int64_t{row} * config_.draft_vocab, config_.draft_vocab);
  }
  const float* token = token_.data() + int64_t{row} * config_.rank;
  const float sure = config_.confidence ? confidence(pass_.state(pass_.row_of(prediction)), token) : kNaN;
  const int32_t drawn = draft.sampler->draw(target_logits(logits), draft.first_position + step, draft.tokens);
  if (drawn < 0 || (config_.confidence && std::isnan(sure))) {
    draft.broken = std::isnan(logits[0]) || (config_.confidence && std::isnan(sure));
    draft.count = step;
    return;
  }
  draft.tokens.push_back(drawn);
  draft.confidences.push_back(sure);
}

void DsparkHead::draw(std::span<HeadDraft> drafts, const GoesOn& goes_on) {
  const size_t rank = static_cast<size_t>(config_.rank);
  if (config_.head == DraftHead::kRnn) {
    recurrent_.ensure(drafts.size() * rank);
    std::fill_n(recurrent_.data(), drafts.size() * rank, 0.0f);
  }
  for (int step = 0;; ++step) {
    active_.clear();
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (step < drafts[i].count) active_.push_back(i);
    }
    if (active_.empty()) return;
    if (config_.head != DraftHead::kNone) {
      fill_inputs(drafts, step);
      compute_bias();
    }
    pool_.run(static_cast<int>(active_.size()),
              [&](int row) { draw_one(drafts[active_[static_cast<size_t>(row)]], step, row); });
    for (const size_t i : active_) {
      if (step < drafts[i].count && !goes_on(i)) drafts[i].count = step + 1;
    }
  }
}

}  // namespace dspark
