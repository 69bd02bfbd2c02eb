// The MLPs of a step: gated, and mixtures of gated experts. The step's thread; loops run on the pool.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/exact_math.h"
#include "model/step_internal.h"

namespace dspark {
namespace {

// Rows of gate and up of one strip pair; one a thread.
struct GateScratch {
  Buffer<float> gate, up;  // [rows, 32]
};
thread_local GateScratch gate_scratch;

// Columns [32 pair, 32 pair + 32) of act(gate x) * (up x), into floats (row i at out_row(i)) and int8.
template <class OutRow>
void gate_columns(const MatmulKernels& kernels, const Ops& ops, Gate act, const PackedMatrix& gate,
                  const PackedMatrix& up, int64_t pair, const MatmulInput& input, bool quantise, OutRow out_row,
                  Activations* out) {
  constexpr int kColumns = 2 * kStripRows;
  GateScratch& scratch = gate_scratch;
  scratch.gate.ensure(static_cast<size_t>(input.rows) * kColumns);
  scratch.up.ensure(static_cast<size_t>(input.rows) * kColumns);
  matmul_strip_pair(kernels, gate, 2 * pair, input, scratch.gate.data());
  matmul_strip_pair(kernels, up, 2 * pair, input, scratch.up.data());
  const int columns = static_cast<int>(std::min<int64_t>(kColumns, gate.rows() - kColumns * pair));
  for (int i = 0; i < input.rows; ++i) {
    float* g = scratch.gate.data() + i * kColumns;
    ops.gated(act, g, scratch.up.data() + i * kColumns, columns, g);
    const int64_t row = out_row(i);
    if (quantise) {
      int16_t* wide = kernels.wants_wide ? out->wide_row(row) + kColumns * pair : nullptr;
      ops.quantise(g, kColumns, out->row(row) + pair, wide);
    }
  }
}

}  // namespace

void Step::gated_mlp(const LayerWeights& weights, const NormWeights& post_norm) {
  PhaseClock clock(*this, Phase::kMlp);
  const int ffn = config_.ffn;
  const bool quantised = ffn % kPiece == 0 && !is_float(weights.down.weights.type());
  if (quantised) {
    mlp_q_.resize(rows_, ffn);
  } else {
    mlp_.ensure(static_cast<size_t>(rows_) * static_cast<size_t>(ffn));
  }
  const MatmulInput input = input_of(rows_, h_q_, h_.data(), config_.hidden);
  const int pairs = (ffn + 2 * kStripRows - 1) / (2 * kStripRows);
  auto run_pair = [&](int pair) {
    gate_columns(
        matmul_, ops_, config_.gate, weights.gate.weights, weights.up.weights, pair, input, quantised,
        [](int i) { return i; }, &mlp_q_);
    if (quantised) return;
    const int columns = std::min(2 * kStripRows, ffn - 2 * kStripRows * pair);
    for (int i = 0; i < rows_; ++i) {
      std::memcpy(mlp_.data() + int64_t{i} * ffn + 2 * kStripRows * pair, gate_scratch.gate.data() + i * 2 * kStripRows,
                  static_cast<size_t>(columns) * sizeof(float));
    }
  };
  const PackedMatrix* const down[] = {&weights.down.weights};
  pool_.run_in_order(pairs, run_pair, [&](int range, int ranges) { fetch_ahead(down, range, ranges); });
  const MatmulJob job = {&weights.down.weights, h_.data(), config_.hidden};
  const PackedMatrix* next[1] = {next_layer_ != nullptr ? &next_layer_->q.weights : nullptr};
  matmul(pool_, matmul_, input_of(rows_, mlp_q_, mlp_.data(), ffn), {&job, 1},
         next_layer_ != nullptr ? NextWeights(next) : NextWeights());
  add_later(post_norm);
}

// Softmax over all experts, the largest `experts_used` (ties to the lowest index), listed by ascending index.
void Step::route_row(int row) {
  const int experts = config_.experts, used = config_.experts_used;
  float* scores = router_.data() + int64_t{row} * experts;
  double top = -std::numeric_limits<double>::infinity(), sum = 0.0;
  for (int e = 0; e < experts; ++e) top = std::max(top, static_cast<double>(scores[e]));
  auto weight = [&](int e) { return exact_exp(static_cast<double>(scores[e]) - top); };
  for (int e = 0; e < experts; ++e) sum += weight(e);
  int32_t* ids = expert_id_.data() + int64_t{row} * used;
  float* share = expert_weight_.data() + int64_t{row} * used;
  std::vector<int32_t> order(static_cast<size_t>(experts));
  for (int e = 0; e < experts; ++e) order[static_cast<size_t>(e)] = e;
  // NaN scores compare as lowest, so that the order stays strict.
  auto better = [&](int32_t a, int32_t b) {
    const bool a_nan = scores[a] != scores[a], b_nan = scores[b] != scores[b];
    if (a_nan != b_nan) return b_nan;
    return a_nan || scores[a] == scores[b] ? a < b : scores[a] > scores[b];
  };
  std::partial_sort(order.begin(), order.begin() + used, order.end(), better);
  std::sort(order.begin(), order.begin() + used);
  double kept = 0.0;
  for (int i = 0; i < used; ++i) {
    ids[i] = order[static_cast<size_t>(i)];
    share[i] = static_cast<float>(weight(ids[i]) / sum);
    kept += static_cast<double>(share[i]);
  }
  for (int i = 0; config_.normalise_experts && i < used; ++i) {
    share[i] = static_cast<float>(static_cast<double>(share[i]) / kept);
  }
}

// Gathers, for every expert, the rows that use it.
void Step::route(const LayerWeights& weights) {
  const int used = config_.experts_used;
  router_.ensure(static_cast<size_t>(rows_ * config_.experts));
  expert_id_.ensure(static_cast<size_t>(rows_ * used));
  expert_weight_.ensure(static_cast<size_t>(rows_ * used));
  const MatmulJob job = {&weights.router.weights, router_.data(), config_.experts};
  matmul(pool_, matmul_, input_of(rows_, h_q_, h_.data(), config_.hidden), {&job, 1});
  for_each_row(rows_, [&](int row) { route_row(row); });
  for (Routing& expert : routing_) {
    expert.rows.clear();
    expert.slots.clear();
  }
  for (int slot = 0; slot < rows_ * used; ++slot) {
    Routing& expert = routing_[static_cast<size_t>(expert_id_[static_cast<size_t>(slot)])];
    expert.rows.push_back(slot / used);
    expert.slots.push_back(slot);
  }
}

// Every active expert's MLP over its gathered rows; results to expert_out_ by slot.
void Step::expert_mlps(const LayerWeights& weights, std::span<const int> active) {
  const int ffn = config_.expert_ffn, hidden = config_.hidden;
  const bool quantised = ffn % kPiece == 0 && !is_float(weights.experts[0].down.type());
  const int gate_pairs = (ffn + 2 * kStripRows - 1) / (2 * kStripRows);
  pool_.run(static_cast<int>(active.size()) * gate_pairs, [&](int task) {
    const size_t e = static_cast<size_t>(active[static_cast<size_t>(task / gate_pairs)]);
    const Routing& routing = routing_[e];
    const int pair = task % gate_pairs;
    MatmulInput input = input_of(static_cast<int>(routing.rows.size()), h_q_, h_.data(), hidden);
    input.ids = routing.rows.data();
    gate_columns(
        matmul_, ops_, config_.gate, weights.experts[e].gate, weights.experts[e].up, pair, input, quantised,
        [&](int i) { return routing.slots[static_cast<size_t>(i)]; }, &mlp_q_);
    if (quantised) return;
    const int columns = std::min(2 * kStripRows, ffn - 2 * kStripRows * pair);
    for (int i = 0; i < input.rows; ++i) {
      std::memcpy(mlp_.data() + int64_t{routing.slots[static_cast<size_t>(i)]} * ffn + 2 * kStripRows * pair,
                  gate_scratch.gate.data() + i * 2 * kStripRows, static_cast<size_t>(columns) * sizeof(float));
    }
  });
  const int down_pairs = (hidden + 2 * kStripRows - 1) / (2 * kStripRows);
  pool_.run(static_cast<int>(active.size()) * down_pairs, [&](int task) {
    const size_t e = static_cast<size_t>(active[static_cast<size_t>(task / down_pairs)]);
    const Routing& routing = routing_[e];
    const int pair = task % down_pairs;
    MatmulInput input = input_of(static_cast<int>(routing.slots.size()), mlp_q_, mlp_.data(), ffn);
    input.ids = routing.slots.data();
    Buffer<float>& out = gate_scratch.gate;
    out.ensure(static_cast<size_t>(input.rows) * 2 * kStripRows);
    matmul_strip_pair(matmul_, weights.experts[e].down, 2 * pair, input, out.data());
    const int columns = std::min(2 * kStripRows, hidden - 2 * kStripRows * pair);
    for (int i = 0; i < input.rows; ++i) {
      std::memcpy(expert_out_.data() + int64_t{routing.slots[static_cast<size_t>(i)]} * hidden + 2 * kStripRows * pair,
                  out.data() + i * 2 * kStripRows, static_cast<size_t>(columns) * sizeof(float));
    }
  });
}

void Step::experts(const LayerWeights& weights) {
  PhaseClock clock(*this, Phase::kMlp);
  const int used = config_.experts_used, hidden = config_.hidden;
  route(weights);
  std::vector<int> active;
  for (int e = 0; e < config_.experts; ++e) {
    if (!routing_[static_cast<size_t>(e)].rows.empty()) active.push_back(e);
  }
  const size_t slots = static_cast<size_t>(rows_ * used);
  mlp_q_.resize(rows_ * used, config_.expert_ffn);
  mlp_.ensure(slots * static_cast<size_t>(config_.expert_ffn));
  expert_out_.ensure(slots * static_cast<size_t>(hidden));
  expert_mlps(weights, active);
  for_each_row(rows_, [&](int row) {
    float* sum = h_.data() + int64_t{row} * hidden;
    std::memset(sum, 0, static_cast<size_t>(hidden) * sizeof(float));
    for (int i = 0; i < used; ++i) {
      const int64_t slot = int64_t{row} * used + i;
      ops_.add_scaled(sum, expert_out_.data() + slot * hidden, expert_weight_[static_cast<size_t>(slot)], hidden);
    }
    ops_.add(x_.data() + int64_t{row} * hidden, sum, hidden);
  });
}

}  // namespace dspark
