// ModelConfig: the shape of a decoder, the same for every file format and architecture. Filled by the architecture
// files (arch_*.cc), then const: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "kernels/ops.h"

namespace dspark {

// Rotary embedding of one kind of layer. Frequencies: base^(-2i / dim) / factors[i] / scale.
struct RopeConfig {
  double base = 10000.0;
  double scale = 1.0;          // linear position scaling: positions are divided by it
  std::vector<float> factors;  // [dim / 2] or empty (Llama 3's scaling, GGUF's rope_freqs)
};

// Radians for each position, of the pairs of a head: [head_dim / 2].
std::vector<double> rope_frequencies(const RopeConfig& rope, int head_dim);

struct ModelConfig {
  std::string architecture;
  int layers = 0;
  int hidden = 0;
  int ffn = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocab = 0;
  int context = 0;  // trained context length, positions
  float norm_eps = 1e-6f;
  float embedding_scale = 1.0f;  // embeddings are multiplied by it
  float query_scale = 1.0f;      // of the scores: 1 / sqrt(head_dim) unless the model says otherwise
  Gate gate = Gate::kSilu;
  RopeConfig rope;           // of layers with full attention
  RopeConfig local_rope;     // of layers with a window
  int window = 0;            // positions a local layer sees, itself included
  std::vector<bool> local;   // [layers], whether a layer has the window; empty: none
  bool untied_head = false;  // the file promises a head of its own; otherwise one that it has is used all the same

  int experts = 0;  // 0: dense
  int experts_used = 0;
  int expert_ffn = 0;
  bool normalise_experts = true;  // the used experts' weights sum to one

  int group() const { return heads / kv_heads; }
  int q_dim() const { return heads * head_dim; }
  int kv_dim() const { return kv_heads * head_dim; }
  bool is_local(int layer) const { return !local.empty() && local[static_cast<size_t>(layer)]; }
  int layer_window(int layer) const { return is_local(layer) ? window : 0; }
};

// kCorrupt, naming the value, unless the numbers that every decoder has are in their bounds: layers, hidden, heads,
// kv_heads, head_dim, vocab, context. Before anything is computed from them.
Status check_shape(const ModelConfig& config, const std::string& path);

// kCorrupt, naming the value, unless every number is one that the kernels can work with and none is absurd.
Status check_config(const ModelConfig& config, const std::string& path);

}  // namespace dspark
