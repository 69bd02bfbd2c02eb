// See parameters.h.
#include "train/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "draft/dspark_tensors.h"

namespace dspark {

namespace names = drafter_tensor;

DrafterParameters::DrafterParameters(const DsparkConfig& config) {
  const ModelConfig& shape = config.backbone;
  const int64_t hidden = shape.hidden, rank = config.rank;
  const auto add = [&](const TensorName& name, std::vector<int64_t> dims, bool decays, int layer = 0) {
    int64_t size = 1;
    for (const int64_t dim : dims) size *= dim;
    const auto count = static_cast<size_t>(size);
    all.push_back({.name = fmt::format(fmt::runtime(name.gguf), layer),
                   .shape = std::move(dims),
                   .decays = decays,
                   .value = std::vector<float>(count),
                   .gradient = std::vector<float>(count),
                   .first_moment = std::vector<float>(count),
                   .second_moment = std::vector<float>(count)});
    return &all.back();
  };
  const auto add_norm = [&](const TensorName& name, int64_t n, int layer = 0) {
    Parameter* norm = add(name, {n}, false, layer);
    std::fill(norm->value.begin(), norm->value.end(), 1.0f);
    return norm;
  };
  mask = add(names::kMaskEmbedding, {hidden}, false);
  fc = add(names::kFc, {hidden, config.features()}, true);
  hidden_norm = add_norm(names::kHiddenNorm, hidden);
  for (int i = 0; i < shape.layers; ++i) {
    layers.push_back({.attention_norm = add_norm(names::kAttentionNorm, hidden, i),
                      .q = add(names::kQ, {shape.q_dim(), hidden}, true, i),
                      .k = add(names::kK, {shape.kv_dim(), hidden}, true, i),
                      .v = add(names::kV, {shape.kv_dim(), hidden}, true, i),
                      .q_norm = add_norm(names::kQNorm, shape.head_dim, i),
                      .k_norm = add_norm(names::kKNorm, shape.head_dim, i),
                      .output = add(names::kAttentionOutput, {hidden, shape.q_dim()}, true, i),
                      .ffn_norm = add_norm(names::kFfnNorm, hidden, i),
                      .gate = add(names::kGate, {shape.ffn, hidden}, true, i),
                      .up = add(names::kUp, {shape.ffn, hidden}, true, i),
                      .down = add(names::kDown, {hidden, shape.ffn}, true, i)});
  }
  output_norm = add_norm(names::kOutputNorm, hidden);
  if (config.draft_vocab < shape.vocab) output = add(names::kOutput, {config.draft_vocab, hidden}, true);
  if (config.head != DraftHead::kNone) {
    markov_w1 = add(names::kMarkovW1, {shape.vocab, rank}, false);
    markov_w2 = add(names::kMarkovW2, {config.draft_vocab, rank}, true);
  }
  if (config.head == DraftHead::kGated) {
    gate = add(names::kGateProj, {rank, hidden + rank}, true);
    gate_bias = add(names::kGateBias, {rank}, false);
  }
  if (config.head == DraftHead::kRnn) {
    joint = add(names::kJointProj, {3 * rank, 2 * rank + hidden}, true);
    joint_bias = add(names::kJointBias, {3 * rank}, false);
  }
  if (config.confidence) {
    confidence = add(names::kConfidence, {1, hidden + (config.confidence_sees_token ? rank : 0)}, true);
    confidence_bias = add(names::kConfidenceBias, {1}, false);
  }
  if (config.lookup) {
    lookup_token = add(names::kLookupToken, {hidden, hidden}, true);
    lookup_next = add(names::kLookupNext, {hidden, hidden}, true);
  }
}

void DrafterParameters::clear_gradients() {
  for (Parameter& parameter : all) std::fill(parameter.gradient.begin(), parameter.gradient.end(), 0.0f);
}

int64_t DrafterParameters::size() const {
  int64_t total = 0;
  for (const Parameter& parameter : all) total += parameter.size();
  return total;
}

Parameter* DrafterParameters::find(const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Parameter& p) { return p.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace dspark
