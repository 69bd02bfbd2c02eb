// Binding of dspark_weights.h.
#include "draft/dspark_weights.h"

#include <algorithm>
#include <cstring>

#include "draft/dspark_tensors.h"
#include "kernels/formats/format.h"

namespace dspark {
namespace {

using namespace drafter_tensor;

constexpr TensorName kNoBias = {"", ""};

Status load_layer(const ModelConfig& c, WeightLoader& loader, int i, LayerWeights* out) {
  DSPARK_TRY(out->attention_norm, loader.vector(kAttentionNorm, c.hidden, i));
  DSPARK_TRY(out->q, loader.linear(kQ, kNoBias, c.q_dim(), c.hidden, i));
  DSPARK_TRY(out->k, loader.linear(kK, kNoBias, c.kv_dim(), c.hidden, i));
  DSPARK_TRY(out->v, loader.linear(kV, kNoBias, c.kv_dim(), c.hidden, i));
  DSPARK_TRY(out->q_norm, loader.vector(kQNorm, c.head_dim, i));
  DSPARK_TRY(out->k_norm, loader.vector(kKNorm, c.head_dim, i));
  DSPARK_TRY(out->output, loader.linear(kAttentionOutput, kNoBias, c.hidden, c.q_dim(), i));
  DSPARK_TRY(out->ffn_norm, loader.vector(kFfnNorm, c.hidden, i));
  DSPARK_TRY(out->gate, loader.linear(kGate, kNoBias, c.ffn, c.hidden, i));
  DSPARK_TRY(out->up, loader.linear(kUp, kNoBias, c.ffn, c.hidden, i));
  DSPARK_TRY(out->down, loader.linear(kDown, kNoBias, c.hidden, c.ffn, i));
  return Ok{};
}

Status load_heads(const ModelFile& file, const DsparkConfig& c, WeightLoader& loader, DsparkWeights* out) {
  const int hidden = c.backbone.hidden, rank = c.rank;
  if (c.head != DraftHead::kNone) {
    DSPARK_TRY(out->markov_w1, loader.matrix(kMarkovW1, c.backbone.vocab, rank));
    DSPARK_TRY(out->markov_w2, loader.matrix(kMarkovW2, c.draft_vocab, rank));
  }
  if (c.head == DraftHead::kGated) {
    DSPARK_TRY(out->gate, loader.linear(kGateProj, kGateBias, rank, hidden + rank, 0));
  }
  if (c.head == DraftHead::kRnn) {
    DSPARK_TRY(out->joint, loader.linear(kJointProj, kJointBias, 3 * rank, 2 * rank + hidden, 0));
  }
  if (!c.confidence) return Ok{};
  const int inputs = c.confidence_sees_token ? hidden + rank : hidden;
  const std::string_view name = file.gguf() != nullptr ? kConfidence.gguf : kConfidence.hf;
  DSPARK_TRY(const TensorView view, file.tensors().find(name, {1, inputs}));
  if (!is_float(view.type)) {
    return make_error(ErrorCode::kUnsupported, "{}: tensor '{}' is {}, expected f32, f16 or bf16",
                      file.tensors().path(), name, dtype_info(view.type).name);
  }
  out->confidence.ensure(static_cast<size_t>(hidden + rank));
  std::fill_n(out->confidence.data(), hidden + rank, 0.0f);
  format_of(view.type).dequantise(view.data, inputs, out->confidence.data());
  if (loader.contains(kConfidenceBias)) {
    DSPARK_TRY(const NormWeights bias, loader.vector(kConfidenceBias, 1));
    out->confidence_bias = bias[0];
  }
  return Ok{};
}

Status load_inputs(const DsparkConfig& c, const Model& target, WeightLoader& loader, DsparkWeights* out) {
  const int hidden = c.backbone.hidden;
  if (loader.contains(kEmbedding)) {
    DSPARK_TRY(out->embedding, loader.matrix(kEmbedding, c.backbone.vocab, hidden));
  }
  if (c.mask_embedding) {
    DSPARK_TRY(out->mask, loader.vector(kMaskEmbedding, hidden));
  } else {
    const PackedMatrix& embedding = out->embedding.empty() ? target.weights().embedding : out->embedding;
    const float scale = c.embedding_scale.value_or(out->embedding.empty() ? target.config().embedding_scale : 1.0f);
    out->mask.ensure(static_cast<size_t>(hidden));
    embedding.dequantise_row(c.mask_token, out->mask.data());
    for (int i = 0; i < hidden; ++i) out->mask[static_cast<size_t>(i)] *= scale;
  }
  if (c.lookup) {
    DSPARK_TRY(out->lookup_token, loader.matrix(kLookupToken, hidden, hidden));
    DSPARK_TRY(out->lookup_next, loader.matrix(kLookupNext, hidden, hidden));
  }
  return Ok{};
}

}  // namespace

int64_t DsparkWeights::bytes() const {
  int64_t total = 0;
  const auto add = [&](const PackedMatrix& matrix) { total += matrix.empty() ? 0 : matrix.bytes(); };
  for (const PackedMatrix* matrix :
       {&embedding, &fc, &output, &markov_w1, &markov_w2, &gate.weights, &joint.weights, &lookup_token, &lookup_next}) {
    add(*matrix);
  }
  for (const LayerWeights& layer : layers) {
    for (const Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
      add(linear->weights);
    }
  }
  return total;
}

Result<std::vector<int32_t>> read_vocabulary_map(const ModelFile& file, const DsparkConfig& config) {
  std::vector<int32_t> out;
  const TensorInfo* info = file.tensors().info(kVocabularyMap);
  if (info == nullptr) return out;
  const std::string& path = file.tensors().path();
  const int64_t count = info->shape[0];
  const bool gguf = file.gguf() != nullptr;
  if (info->rank != 1 || count != config.draft_vocab || info->type_name != (gguf ? "i64" : "I64") ||
      info->bytes != static_cast<uint64_t>(count) * sizeof(int64_t)) {
    return make_error(ErrorCode::kCorrupt, "{}: tensor 'd2t' is {} {}, expected a vector of {} 64-bit integers", path,
                      info->type_name, format_shape({info->shape.data(), static_cast<size_t>(info->rank)}),
                      config.draft_vocab);
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t id = 0;
    std::memcpy(&id, info->data + i * int64_t{sizeof(int64_t)}, sizeof(int64_t));
    // Of 2^63 or so nothing may be added.
    if (!gguf && id >= 0 && id < config.backbone.vocab) id += i;
    const int64_t least = out.empty() ? 0 : out.back() + 1;
    if (id < least || id >= config.backbone.vocab) {
      return make_error(ErrorCode::kCorrupt, "{}: 'd2t' maps row {} to token {}, expected {} to {}: ascending ids",
                        path, i, id, least, config.backbone.vocab - 1);
    }
    out.push_back(static_cast<int32_t>(id));
  }
  return out;
}

Result<DsparkWeights> load_dspark_weights(const ModelFile& file, const DsparkConfig& config, const Model& target,
                                          ThreadPool& pool, const LoadOptions& options) {
  DsparkWeights out;
  out.arena = std::make_unique<Arena>();
  WeightLoader loader(file, pool, *out.arena, options);
  const ModelConfig& c = config.backbone;
  DSPARK_TRY(out.vocabulary, read_vocabulary_map(file, config));
  DSPARK_TRY(out.fc, loader.matrix(kFc, c.hidden, config.features()));
  DSPARK_TRY(out.hidden_norm, loader.vector(kHiddenNorm, c.hidden));
  DSPARK_TRY(out.output_norm, loader.vector(kOutputNorm, c.hidden));
  if (loader.contains(kOutput) || !out.vocabulary.empty()) {
    DSPARK_TRY(out.output, loader.matrix(kOutput, config.draft_vocab, c.hidden));
  }
  DSPARK_RETURN_IF_ERROR(load_inputs(config, target, loader, &out));
  for (int i = 0; i < c.layers; ++i) {
    DSPARK_RETURN_IF_ERROR(load_layer(c, loader, i, &out.layers.emplace_back()));
  }
  DSPARK_RETURN_IF_ERROR(load_heads(file, config, loader, &out));
  return out;
}

}  // namespace dspark
