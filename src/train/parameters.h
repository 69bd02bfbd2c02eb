// The trainable tensors of a drafter, with their gradients and AdamW's moments, under their names in the GGUF
// (docs/drafter.md). One owner.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "draft/dspark_config.h"

namespace dspark {

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;  // outermost first
  bool decays;                 // AdamW's weight decay: matrices, not norms, biases and embeddings
  std::vector<float> value, gradient, first_moment, second_moment;

  const float* data() const { return value.data(); }
  float* grad() { return gradient.data(); }
  int64_t size() const { return static_cast<int64_t>(value.size()); }
};

struct LayerParameters {
  Parameter *attention_norm, *q, *k, *v, *q_norm, *k_norm, *output, *ffn_norm, *gate, *up, *down;
};

// Null: what this kind of drafter lacks.
struct DrafterParameters {
  explicit DrafterParameters(const DsparkConfig& config);
  DrafterParameters(const DrafterParameters&) = delete;
  DrafterParameters& operator=(const DrafterParameters&) = delete;

  std::deque<Parameter> all;  // zeros at first, norms ones
  Parameter *mask, *fc, *hidden_norm, *output_norm;
  Parameter* output = nullptr;  // where the drafter has a vocabulary of its own; else the target's head, frozen
  Parameter *markov_w1 = nullptr, *markov_w2 = nullptr;
  Parameter *gate = nullptr, *gate_bias = nullptr;
  Parameter *joint = nullptr, *joint_bias = nullptr;
  Parameter *confidence = nullptr, *confidence_bias = nullptr;
  Parameter *lookup_token = nullptr, *lookup_next = nullptr;
  std::vector<LayerParameters> layers;

  void clear_gradients();
  int64_t size() const;
  Parameter* find(const std::string& name);
};

}  // namespace dspark
