// The weights of a DSpark drafter in memory. Loaded once with the pool's help; read-only afterwards, any thread.
#pragma once

#include <memory>
#include <vector>

#include "draft/dspark_config.h"
#include "model/model.h"

namespace dspark {

struct DsparkWeights {
  std::unique_ptr<Arena> arena;  // where the drafter's own matrices lie
  PackedMatrix embedding;        // [vocab, hidden]; empty: the target's
  NormWeights mask;              // [hidden], the input of slots without a token
  PackedMatrix fc;               // [hidden, features]
  NormWeights hidden_norm;       // [hidden]
  std::vector<LayerWeights> layers;
  NormWeights output_norm;          // [hidden]
  PackedMatrix output;              // [draft_vocab, hidden]; empty: the embedding, or the target's head
  std::vector<int32_t> vocabulary;  // [draft_vocab] target ids, ascending; empty: all
  PackedMatrix markov_w1;           // [vocab, rank]
  PackedMatrix markov_w2;           // [draft_vocab, rank]
  Linear gate, joint;               // [rank, hidden + rank], [3 rank, 2 rank + hidden]
  NormWeights confidence;           // [hidden + rank], zero behind hidden where it does not see the token
  float confidence_bias = 0.0f;
  PackedMatrix lookup_token, lookup_next;  // [hidden, hidden]

  // Packed, without what is shared with the target.
  int64_t bytes() const;
};

// kCorrupt where the file does not hold what its own numbers promise. `target` gives the embedding of the mask token
// where the drafter has none.
Result<DsparkWeights> load_dspark_weights(const ModelFile& file, const DsparkConfig& config, const Model& target,
                                          ThreadPool& pool, const LoadOptions& options);

// `d2t` of the file as target ids; empty where there is none. kCorrupt unless they ascend and lie in the vocabulary.
Result<std::vector<int32_t>> read_vocabulary_map(const ModelFile& file, const DsparkConfig& config);

}  // namespace dspark
