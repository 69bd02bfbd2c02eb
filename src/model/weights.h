// The weights of a decoder in memory, and the loader that binds them to the tensors of a file. Loaded once by the
// starting thread with the pool's help; read-only afterwards, shared by all threads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/thread_pool.h"
#include "kernels/packed_matrix.h"
#include "model/config.h"
#include "model/model_file.h"

namespace dspark {

// y = W x (+ bias).
struct Linear {
  PackedMatrix weights;  // [rows, k]
  Buffer<float> bias;    // [rows], or empty
  const float* bias_or_null() const { return bias.data(); }
};

using NormWeights = Buffer<float>;  // [n], empty where the architecture has no such norm

struct Expert {
  PackedMatrix gate, up;  // [expert_ffn, hidden]
  PackedMatrix down;      // [hidden, expert_ffn]
};

// One layer. What an architecture lacks stays empty.
struct LayerWeights {
  NormWeights attention_norm;       // [hidden]
  Linear q, k, v;                   // [heads * head_dim, hidden], [kv_heads * head_dim, hidden] twice
  NormWeights q_norm, k_norm;       // [head_dim]
  Linear output;                    // [hidden, heads * head_dim]
  NormWeights post_attention_norm;  // [hidden]
  NormWeights ffn_norm;             // [hidden]
  Linear gate, up, down;            // [ffn, hidden] twice, [hidden, ffn]
  NormWeights post_ffn_norm;        // [hidden]
  Linear router;                    // [experts, hidden]
  std::vector<Expert> experts;
};

struct ModelWeights {
  std::unique_ptr<Arena> arena;  // where all matrices lie
  PackedMatrix embedding;        // [vocab, hidden]
  PackedMatrix head;             // [vocab, hidden]; empty when it is the embedding
  NormWeights final_norm;        // [hidden]
  std::vector<LayerWeights> layers;

  const PackedMatrix& head_or_embedding() const { return head.empty() ? embedding : head; }
  int64_t bytes() const;
};

// A tensor's name in either kind of file; "{}" stands for the layer, and for the expert in the second place.
struct TensorName {
  const char* gguf;
  const char* hf;
};

struct LoadOptions {
  std::optional<DType> quantize;  // float matrices become this type
};

// The type a float matrix of this k gets when `wanted` is asked for: as llama-quantize falls back, and unchanged where
// not even 32 divides k.
DType quantised_type(DType wanted, DType source, int64_t k);

// Finds tensors, checks their shapes, packs them and drops their file pages.
class WeightLoader {
 public:
  // Matrices are packed into `arena`, which must outlive them.
  WeightLoader(const ModelFile& file, ThreadPool& pool, Arena& arena, const LoadOptions& options)
      : file_(file), pool_(pool), arena_(arena), options_(options) {}

  bool is_gguf() const { return file_.gguf() != nullptr; }
  bool contains(const TensorName& name, int layer = 0, int expert = 0) const;

  // `order`, if not empty, says which row of the file becomes row i.
  Result<PackedMatrix> matrix(const TensorName& name, int64_t rows, int64_t k, int layer = 0, int expert = 0,
                              std::span<const int32_t> order = {});
  // In the file's type also when loading quantises: a router is small, and its rounding would change which experts are
  // chosen (llama-quantize leaves it alone, too).
  Result<PackedMatrix> router(const TensorName& name, int64_t experts, int64_t k, int layer);
  // A matrix and, where the file has one, its bias.
  Result<Linear> linear(const TensorName& weight, const TensorName& bias, int64_t rows, int64_t k, int layer,
                        std::span<const int32_t> order = {});
  // A vector of floats; `plus` is added to each (Gemma's norms).
  Result<Buffer<float>> vector(const TensorName& name, int64_t n, int layer = 0, float plus = 0.0f);
  // GGUF's stacked experts [experts, rows, k].
  Result<std::vector<PackedMatrix>> stacked(const TensorName& name, int experts, int64_t rows, int64_t k, int layer);

 private:
  std::string name_of(const TensorName& name, int layer, int expert) const;
  PackedMatrix pack(const TensorView& view, int64_t rows, int64_t k, const uint8_t* data,
                    std::span<const int32_t> order);

  const ModelFile& file_;
  ThreadPool& pool_;
  Arena& arena_;
  LoadOptions options_;
};

}  // namespace dspark
