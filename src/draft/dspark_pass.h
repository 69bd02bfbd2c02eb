// DsparkPass: the products and attention of a DSpark drafter over the rows of several sequences (docs/drafter.md):
// projected target features into the KV blocks, and the slots of draft blocks to hidden states and base logits. What a
// row gets does not depend on the other sequences (row law). Step thread; loops run on the pool.
#pragma once

#include <span>
#include <vector>

#include "draft/drafter.h"
#include "draft/dspark_weights.h"
#include "kernels/matmul.h"

namespace dspark {

// Rows that enter products: floats, and int8 for the weights that read those.
struct ProductRows {
  Buffer<float> floats;  // [rows, k]
  Activations quantised;
  int rows = 0;
  int64_t k = 0;

  void resize(int rows_now, int64_t k_now);
  float* row(int64_t r) { return floats.data() + r * k; }
  const float* row(int64_t r) const { return floats.data() + r * k; }
  // Once the floats of the row are there.
  void quantise(const Ops& ops, const MatmulKernels& kernels, int row);
  MatmulInput input() const { return {.rows = rows, .quantised = &quantised, .floats = floats.data(), .stride = k}; }
};

// The slots of one draft.
struct DraftBlock {
  int anchor;         // position of slot 0
  int32_t token;      // the anchor
  int context_first;  // the positions from here to before the anchor are looked at
  int slots;
  std::span<uint8_t* const> blocks;   // KV of the context
  std::span<const int32_t> proposal;  // of a lookup, for anchor + 1 and on; used with lookup-conditioned slots
};

class DsparkPass {
 public:
  // The drafter's layers lie at `kv_offset` of a KV block, one behind the other. All but the pool must outlive this.
  DsparkPass(const DsparkConfig& config, const DsparkWeights& weights, const Model& target, DType kv_type,
             int64_t kv_offset, ThreadPool& pool, Isa isa);

  KvLayout kv_layout() const { return kv_; }

  // As Drafter::computed.
  void inject(std::span<const ComputedRow> rows, const float* hidden, int hidden_rows);

  // Computes the blocks. Rows stand one behind the other: the slots of block 0, of block 1, ...
  void run(std::span<const DraftBlock> blocks);
  // Of the newest run: the normalised state of a row [hidden], and the base logits of prediction i [draft_vocab],
  // which may be written to. Predictions of a block stand together, in the order of their positions.
  const float* state(int row) const { return state_.row(row); }
  float* logits(int i) { return logits_.data() + int64_t{i} * config_.draft_vocab; }
  int row_of(int prediction) const { return prediction_rows_[static_cast<size_t>(prediction)]; }

 private:
  struct SlotGroup {  // slots of one block that go through attention together
    int block, first, count;
  };

  template <class Fn>
  void for_each_row(int rows, Fn fn);
  void rotations(int rows);
  void normalise(const NormWeights& norm, ProductRows* out);
  void embed_inputs(std::span<const DraftBlock> blocks);
  void add_lookups(std::span<const DraftBlock> blocks);
  void embed(int32_t token, float* out) const;
  void attention(std::span<const DraftBlock> blocks, int layer);
  void attend_group(const DraftBlock& block, const SlotGroup& group, int layer, int kv_head);
  void mlp(const LayerWeights& weights);
  void add_projected();
  void layer(std::span<const DraftBlock> blocks, int index);

  const DsparkConfig& config_;
  const ModelConfig& shape_;
  const DsparkWeights& weights_;
  const PackedMatrix& embedding_;
  const PackedMatrix& head_;
  float embedding_scale_;
  KvLayout kv_;
  KvLayout slot_kv_;  // of one head's slots, in floats
  int64_t kv_offset_;
  ThreadPool& pool_;
  const MatmulKernels& matmul_;
  const Ops& ops_;
  std::vector<double> frequencies_;  // [head_dim / 2]

  int rows_ = 0;
  std::vector<int> positions_;   // [rows]
  std::vector<int> first_rows_;  // [blocks]
  std::vector<SlotGroup> groups_;
  Buffer<float> cos_, sin_;   // [rows, head_dim / 2]
  ProductRows features_;      // [rows, features]
  Buffer<float> context_kv_;  // [2 layers, rows, kv_dim]: keys and values of layer 0, of layer 1, ...
  Buffer<float> x_;           // [rows, hidden]
  ProductRows h_;             // [rows, hidden]
  ProductRows proposals_;     // [proposed tokens, hidden]
  Buffer<float> looked_up_;   // [2, proposed tokens, hidden]
  Buffer<float> q_, k_, v_;   // [rows, q_dim], [rows, kv_dim] twice
  ProductRows attended_;      // [rows, q_dim]
  Buffer<float> projected_;   // [rows, hidden]
  Buffer<float> gate_, up_;   // [rows, ffn]
  ProductRows mlp_;           // [rows, ffn]
  ProductRows state_;         // [rows, hidden]
  std::vector<int32_t> prediction_rows_;
  Buffer<float> logits_;  // [predictions, draft_vocab]
};

}  // namespace dspark
