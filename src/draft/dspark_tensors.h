// The names of a drafter's tensors in both formats (docs/drafter.md). Constant data.
#pragma once

#include "model/weights.h"

namespace dspark::drafter_tensor {

inline constexpr TensorName kEmbedding = {"token_embd.weight", "embed_tokens.weight"};
inline constexpr TensorName kMaskEmbedding = {"mask_embd.weight", "mask_embedding"};
inline constexpr TensorName kFc = {"fc.weight", "fc.weight"};
inline constexpr TensorName kHiddenNorm = {"enc.output_norm.weight", "hidden_norm.weight"};
inline constexpr TensorName kOutputNorm = {"output_norm.weight", "norm.weight"};
inline constexpr TensorName kOutput = {"output.weight", "lm_head.weight"};
inline constexpr TensorName kMarkovW1 = {"markov_w1.weight", "markov_head.markov_w1.weight"};
inline constexpr TensorName kMarkovW2 = {"markov_w2.weight", "markov_head.markov_w2.weight"};
inline constexpr TensorName kGateProj = {"gate_proj.weight", "markov_head.gate_proj.weight"};
inline constexpr TensorName kGateBias = {"gate_proj.bias", "markov_head.gate_proj.bias"};
inline constexpr TensorName kJointProj = {"joint_proj.weight", "markov_head.joint_proj.weight"};
inline constexpr TensorName kJointBias = {"joint_proj.bias", "markov_head.joint_proj.bias"};
inline constexpr TensorName kConfidence = {"conf_proj.weight", "confidence_head.proj.weight"};
inline constexpr TensorName kConfidenceBias = {"conf_proj.bias", "confidence_head.proj.bias"};
inline constexpr TensorName kLookupToken = {"lookup_token.weight", "lookup.token_proj.weight"};
inline constexpr TensorName kLookupNext = {"lookup_next.weight", "lookup.next_proj.weight"};
inline constexpr const char* kVocabularyMap = "d2t";

// Of layer {}.
inline constexpr TensorName kAttentionNorm = {"blk.{}.attn_norm.weight", "layers.{}.input_layernorm.weight"};
inline constexpr TensorName kQ = {"blk.{}.attn_q.weight", "layers.{}.self_attn.q_proj.weight"};
inline constexpr TensorName kK = {"blk.{}.attn_k.weight", "layers.{}.self_attn.k_proj.weight"};
inline constexpr TensorName kV = {"blk.{}.attn_v.weight", "layers.{}.self_attn.v_proj.weight"};
inline constexpr TensorName kQNorm = {"blk.{}.attn_q_norm.weight", "layers.{}.self_attn.q_norm.weight"};
inline constexpr TensorName kKNorm = {"blk.{}.attn_k_norm.weight", "layers.{}.self_attn.k_norm.weight"};
inline constexpr TensorName kAttentionOutput = {"blk.{}.attn_output.weight", "layers.{}.self_attn.o_proj.weight"};
inline constexpr TensorName kFfnNorm = {"blk.{}.ffn_norm.weight", "layers.{}.post_attention_layernorm.weight"};
inline constexpr TensorName kGate = {"blk.{}.ffn_gate.weight", "layers.{}.mlp.gate_proj.weight"};
inline constexpr TensorName kUp = {"blk.{}.ffn_up.weight", "layers.{}.mlp.up_proj.weight"};
inline constexpr TensorName kDown = {"blk.{}.ffn_down.weight", "layers.{}.mlp.down_proj.weight"};

}  // namespace dspark::drafter_tensor
