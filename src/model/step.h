// Step: one forward pass over a list of rows, as the named operations that an architecture's layer is written in.
// Owned by the thread that runs the step; each operation is a parallel loop over the pool. Buffers are kept from step
// to step. The value of a row never depends on the other rows (row law): every cut into tasks gives the same bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/matmul.h"
#include "kernels/ops.h"
#include "model/config.h"
#include "model/weights.h"

namespace dspark {

// One (sequence, position) that goes through the model.
struct StepRow {
  int32_t sequence;  // index into StepInput::block_tables
  int32_t position;
  int32_t token;
  bool wants_logits;
  bool wants_final = false;  // the state behind the last norm, which the logits are made of
};

// Rows of one sequence stand together, in ascending positions; earlier positions are in the sequence's KV.
struct StepInput {
  std::span<const StepRow> rows;
  // Of each sequence: the KV blocks of its positions 0-127, 128-255, ... up to the last row's; each kv_block_bytes().
  std::span<const std::span<uint8_t* const>> block_tables;
  // Layers whose output (the residual stream behind them) is wanted, ascending; -1 is the embedding.
  std::span<const int> hidden_layers;
};

// Valid until the next step.
struct StepOutput {
  const float* logits;  // [rows that want them, vocab], in the order of the rows
  const float* hidden;  // [hidden_layers, rows, hidden]
  const float* final;   // [rows, hidden], behind the last norm; only of rows that want it or logits
};

enum class Phase { kEmbed, kNorm, kQkv, kAttention, kOutput, kMlp, kHead };
inline constexpr int kPhases = 7;
const char* phase_name(Phase phase);

class Step {
 public:
  Step(const ModelConfig& config, const KvLayout& kv, ThreadPool& pool, Isa isa);

  // -- what Model calls --
  void begin(const StepInput& input);
  void embed(const PackedMatrix& embedding);
  void keep_hidden(int layer);
  StepOutput head(const NormWeights& norm, const PackedMatrix& weights);

  // -- the vocabulary of a layer; x is the residual stream [rows, hidden] --
  // `next` is the layer behind this one, or null: its first weights are fetched ahead.
  void enter_layer(int layer, const LayerWeights* next) {
    layer_ = layer;
    next_layer_ = next;
  }
  // h = norm(x), for the products that follow.
  void norm(const NormWeights& weights);
  // q, k, v = W h.
  void project_qkv(const LayerWeights& weights);
  // q and k of every head: norm (where the weights are not empty), then rotation.
  void rotate(const NormWeights& q_norm, const NormWeights& k_norm);
  // Keys and values to the KV blocks, then q looks at every position up to its own (within the layer's window).
  void attend();
  // x += W attention, through `post_norm` first where it is not empty.
  void project_output(const LayerWeights& weights, const NormWeights& post_norm);
  // x += down(act(gate h) * up h), through `post_norm` first where it is not empty.
  void gated_mlp(const LayerWeights& weights, const NormWeights& post_norm);
  // x += sum over the chosen experts, weighted; in the order of their index.
  void experts(const LayerWeights& weights);

  // Seconds by phase since the last call; measured only while `timed` is on.
  void set_timed(bool timed) { timed_ = timed; }
  std::array<double, kPhases> take_phase_seconds();

 private:
  // Rows of one sequence and one KV head that share the loads of its keys and values.
  struct RowGroup {
    int first;  // row
    int count;
  };
  struct Routing {
    std::vector<int32_t> rows;   // that use the expert
    std::vector<int32_t> slots;  // row * experts_used + place, where the result goes
  };
  class PhaseClock;

  // fn(row) for each row, a few to a task.
  template <class Fn>
  void for_each_row(int rows, Fn fn);
  void norm_row(const NormWeights& weights, int row);
  // x += projected, through `post_norm` first where it is not empty: with the norm that follows, or where x is read.
  void add_later(const NormWeights& post_norm);
  void add_projected(int row);
  void settle();
  void find_groups();
  void compute_rotations(const std::vector<double>& frequencies, Buffer<float>* cos, Buffer<float>* sin);
  int first_seen(int position) const;
  const uint8_t* tile_data(int32_t sequence, int tile) const;
  const uint8_t* keys(int32_t sequence, int tile, int kv_head) const;
  const uint8_t* first_keys(size_t unit) const;
  // unit: group * kv_heads + KV head
  void attend_tile(size_t unit, int tile, int last_tile, const AttentionQuery* queries, int count,
                   AttentionPartial* parts);
  void attend_unit(size_t unit);
  void attend_unit_tile(size_t unit, int tile, int32_t* left);
  void rotate_unit(const RowGroup& group, int kv_head, const NormWeights& q_norm, const NormWeights& k_norm);
  void quantise_unit(const RowGroup& group, int kv_head);
  // Whether a KV head's queries fill whole blocks of int8 activations.
  bool heads_are_pieces() const { return config_.group() * config_.head_dim % kPiece == 0; }
  void merge_tiles(int row, int head);
  int fill_queries(const RowGroup& group, int kv_head, AttentionQuery* queries);
  bool split_tiles() const;
  void route(const LayerWeights& weights);
  void route_row(int row);
  void expert_mlps(const LayerWeights& weights, std::span<const int> active);

  const ModelConfig& config_;
  KvLayout kv_;
  ThreadPool& pool_;
  const MatmulKernels& matmul_;
  const Ops& ops_;

  std::vector<double> frequencies_, local_frequencies_;  // [head_dim / 2]

  StepInput input_ = {};
  int rows_ = 0;
  int layer_ = 0;
  const LayerWeights* next_layer_ = nullptr;
  int hidden_kept_ = 0;
  bool unsettled_ = false;            // h_ has not been added to x yet
  const float* post_norm_ = nullptr;  // what it goes through first, or null
  int max_tiles_ = 0;
  std::vector<RowGroup> groups_;

  Buffer<float> x_;          // [rows, hidden]
  Buffer<float> h_;          // [rows, hidden]: x normalised, then what its products bring back to x
  Activations h_q_;          // [rows, hidden]
  Buffer<float> q_, k_, v_;  // [rows, heads * head_dim], [rows, kv_heads * head_dim] twice
  Buffer<float> attention_;  // [rows, heads * head_dim]
  Activations attention_q_;
  Buffer<float> mlp_;  // [rows, ffn]
  Activations mlp_q_;
  Buffer<float> cos_, sin_, local_cos_, local_sin_;  // [rows, head_dim / 2]
  Buffer<float> partial_out_;                        // [rows, heads, tiles, head_dim]
  Buffer<AttentionPartial> partials_;                // [rows, heads, tiles]
  std::vector<int32_t> tiles_left_;                  // [groups, kv_heads], of the layer's attention
  Buffer<float> router_;                             // [rows, experts]
  Buffer<float> expert_weight_;                      // [rows, experts_used]
  Buffer<int32_t> expert_id_;                        // [rows, experts_used], ascending
  Buffer<float> expert_out_;                         // [rows, experts_used, hidden]
  std::vector<Routing> routing_;                     // [experts]
  Buffer<float> logits_;                             // [wanted, vocab]
  std::vector<int32_t> logit_rows_;
  std::vector<int32_t> final_rows_;
  Buffer<float> hidden_;  // [hidden_layers, rows, hidden]

  bool timed_ = false;
  std::array<double, kPhases> phase_seconds_ = {};
};

}  // namespace dspark
