// See drafter_file.h.
#include "draft/drafter_file.h"

#include <algorithm>
#include <cstring>
#include <list>

#include "draft/dspark_tensors.h"
#include "draft/dspark_weights.h"
#include "kernels/formats/format.h"
#include "model/gguf_writer.h"

namespace dspark {
namespace {

using namespace drafter_tensor;

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

void set_shape(const DsparkConfig& config, GgufWriter* out) {
  const ModelConfig& c = config.backbone;
  const auto number = [&](const char* key, int value) {
    out->set(fmt::format("dflash.{}", key), static_cast<uint32_t>(value));
  };
  out->set("general.architecture", "dflash");
  number("block_count", c.layers);
  number("context_length", c.context);
  number("embedding_length", c.hidden);
  number("feed_forward_length", c.ffn);
  number("attention.head_count", c.heads);
  number("attention.head_count_kv", c.kv_heads);
  number("attention.key_length", c.head_dim);
  number("attention.value_length", c.head_dim);
  number("rope.dimension_count", c.head_dim);
  number("vocab_size", c.vocab);
  out->set("dflash.attention.layer_norm_rms_epsilon", c.norm_eps);
  out->set("dflash.rope.freq_base", static_cast<float>(c.rope.base));
  if (c.rope.scale != 1.0) {
    out->set("dflash.rope.scaling.type", "linear");
    out->set("dflash.rope.scaling.factor", static_cast<float>(c.rope.scale));
  }
  if (!c.local.empty()) {
    number("attention.sliding_window", c.window);
    const auto local = std::make_unique<bool[]>(c.local.size());
    std::copy(c.local.begin(), c.local.end(), local.get());
    out->set_array("dflash.attention.sliding_window_pattern", std::span<const bool>(local.get(), c.local.size()));
  }
  if (config.embedding_scale) out->set("dflash.embedding_scale", *config.embedding_scale);
}

void set_drafter(const DsparkConfig& config, GgufWriter* out) {
  out->set("dflash.block_size", static_cast<uint32_t>(config.block_size));
  std::vector<int32_t> layers = config.target_layers;
  for (int32_t& layer : layers) ++layer;
  out->set_array("dflash.target_layers", layers);
  out->set("dflash.sample_from_anchor", config.sample_from_anchor);
  out->set("dflash.has_confidence_head", config.confidence);
  out->set("dflash.attention.causal", config.causal);
  out->set("tokenizer.ggml.mask_token_id", static_cast<uint32_t>(config.mask_token));
  out->set("dspark.head", draft_head_name(config.head));
  out->set("dspark.lookup", config.lookup);
  if (config.target_digest) out->set("dspark.target.digest", to_hex(*config.target_digest));
  if (config.target_layer_count > 0) {
    out->set("dspark.target.layers", static_cast<uint32_t>(config.target_layer_count));
  }
  if (!config.license.empty()) out->set("dspark.license", config.license);
  if (!config.card.empty()) out->set("dspark.card", config.card);
}

std::span<const uint8_t> bytes_of(const auto& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(values[0])};
}

// Row by row, so that a tensor of any size needs little memory.
Status write_tensor(const DrafterTensor& tensor, GgufWriter* out) {
  const int64_t k = tensor.shape.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) rows *= tensor.shape[i];
  const int64_t from = dtype_bytes(tensor.source, k);
  if (tensor.source == tensor.type) return out->write({tensor.data, static_cast<size_t>(rows * from)});
  std::vector<float> floats(static_cast<size_t>(k));
  std::vector<uint8_t> row(static_cast<size_t>(dtype_bytes(tensor.type, k)));
  for (int64_t r = 0; r < rows; ++r) {
    format_of(tensor.source).dequantise(tensor.data + r * from, k, floats.data());
    format_of(tensor.type).quantise(floats.data(), k, row.data());
    DSPARK_RETURN_IF_ERROR(out->write(row));
  }
  return Ok{};
}

// The tensors that a drafter of this kind may have.
std::vector<std::pair<TensorName, int>> tensor_list(const DsparkConfig& config, bool share_embedding) {
  std::vector<std::pair<TensorName, int>> out;
  if (!share_embedding) out.push_back({kEmbedding, 0});
  if (config.mask_embedding) out.push_back({kMaskEmbedding, 0});
  for (const TensorName& name : {kFc, kHiddenNorm, kOutputNorm}) out.push_back({name, 0});
  if (!share_embedding || config.draft_vocab < config.backbone.vocab) out.push_back({kOutput, 0});
  for (int i = 0; i < config.backbone.layers; ++i) {
    for (const TensorName& name :
         {kAttentionNorm, kQ, kK, kV, kQNorm, kKNorm, kAttentionOutput, kFfnNorm, kGate, kUp, kDown}) {
      out.push_back({name, i});
    }
  }
  if (config.head != DraftHead::kNone) out.insert(out.end(), {{kMarkovW1, 0}, {kMarkovW2, 0}});
  if (config.head == DraftHead::kGated) out.insert(out.end(), {{kGateProj, 0}, {kGateBias, 0}});
  if (config.head == DraftHead::kRnn) out.insert(out.end(), {{kJointProj, 0}, {kJointBias, 0}});
  if (config.confidence) out.insert(out.end(), {{kConfidence, 0}, {kConfidenceBias, 0}});
  if (config.lookup) out.insert(out.end(), {{kLookupToken, 0}, {kLookupNext, 0}});
  return out;
}

bool may_be_missing(const TensorName& name) {
  for (const TensorName& optional : {kEmbedding, kOutput, kConfidenceBias, kGateBias, kJointBias}) {
    if (std::string_view(name.gguf) == optional.gguf) return true;
  }
  return false;
}

// Norms, biases and the confidence head stay floats; so does what is no float already.
DType type_for(const TensorView& view, const ConvertOptions& options) {
  if (view.rank < 2 || view.shape[0] == 1) return DType::kF32;
  if (!options.type || !is_float(view.type)) return view.type;
  return quantised_type(*options.type, view.type, view.shape[static_cast<size_t>(view.rank - 1)]);
}

}  // namespace

std::string llamacpp_obstacle(const DsparkConfig& config) {
  if (config.head == DraftHead::kGated || config.head == DraftHead::kRnn) {
    return fmt::format("it reads Markov heads only, this one is '{}'", draft_head_name(config.head));
  }
  if (config.head == DraftHead::kNone && config.sample_from_anchor) {
    return "without a sequential head it takes a slot's token for the slot's own position";
  }
  if (config.lookup) return "it knows no lookup-conditioned slots";
  if (config.mask_embedding) return "it knows no mask embedding of the drafter's own";
  if (config.target_layers.front() < 0) return "it knows no features of the embedding";
  if (config.target_layer_count > 0 && config.target_layers.back() + 1 >= config.target_layer_count) {
    return "it knows no features of the last layer";
  }
  return "";
}

Status write_drafter(const DsparkConfig& config, std::span<const DrafterTensor> tensors,
                     std::span<const int32_t> vocabulary, const GgufFile* target, const std::string& path) {
  GgufWriter out;
  set_shape(config, &out);
  set_drafter(config, &out);
  if (target != nullptr) {
    for (const GgufEntry& entry : target->metadata()) {
      const bool tokenizer = entry.key.starts_with("tokenizer.");
      if (tokenizer && entry.key != "tokenizer.ggml.mask_token_id") out.copy(entry);
    }
  }
  const std::vector<float>& factors = config.backbone.rope.factors;
  const std::vector<int64_t> map(vocabulary.begin(), vocabulary.end());
  if (!map.empty()) out.add_int64_tensor(kVocabularyMap, static_cast<int64_t>(map.size()));
  const int64_t factor_count = static_cast<int64_t>(factors.size());
  if (!factors.empty()) out.add_tensor(kRopeFactors, DType::kF32, {&factor_count, 1});
  for (const DrafterTensor& tensor : tensors) out.add_tensor(tensor.name, tensor.type, tensor.shape);
  DSPARK_RETURN_IF_ERROR(out.create(path));
  if (!map.empty()) DSPARK_RETURN_IF_ERROR(out.write(bytes_of(map)));
  if (!factors.empty()) DSPARK_RETURN_IF_ERROR(out.write(bytes_of(factors)));
  for (const DrafterTensor& tensor : tensors) DSPARK_RETURN_IF_ERROR(write_tensor(tensor, &out));
  return out.finish();
}

Status convert_drafter(const ModelFile& source, const ConvertOptions& options, const std::string& path) {
  const TensorSource& in = source.tensors();
  DSPARK_TRY(DsparkConfig config, read_dspark_config(source));
  if (!config.target_digest) config.target_digest = options.target_digest;
  DSPARK_TRY(const std::vector<int32_t> vocabulary, read_vocabulary_map(source, config));
  std::vector<DrafterTensor> tensors;
  std::list<std::vector<float>> padded;  // the confidence head's
  for (const auto& [name, layer] : tensor_list(config, options.share_embedding)) {
    const std::string from = fmt::format(fmt::runtime(source.gguf() != nullptr ? name.gguf : name.hf), layer);
    if (may_be_missing(name) && !in.contains(from)) continue;
    DSPARK_TRY(const TensorView view, in.find(from));
    DrafterTensor& tensor = tensors.emplace_back(DrafterTensor{fmt::format(fmt::runtime(name.gguf), layer),
                                                               {view.shape.begin(), view.shape.begin() + view.rank},
                                                               view.type,
                                                               view.data,
                                                               type_for(view, options)});
    if (std::string_view(name.gguf) != kConfidence.gguf || config.confidence_sees_token) continue;
    // llama.cpp wants the columns of the token, too.
    const int64_t inputs = config.backbone.hidden + config.rank;
    std::vector<float>& floats = padded.emplace_back(static_cast<size_t>(inputs), 0.0f);
    if (view.rank != 2 || view.shape[0] != 1 || view.shape[1] != config.backbone.hidden) {
      return make_error(ErrorCode::kCorrupt, "{}: tensor '{}' has {} values, expected {}", in.path(), from,
                        view.elements(), config.backbone.hidden);
    }
    format_of(view.type).dequantise(view.data, config.backbone.hidden, floats.data());
    tensor = {tensor.name, {1, inputs}, DType::kF32, reinterpret_cast<const uint8_t*>(floats.data()), DType::kF32};
  }
  if (!vocabulary.empty() && !in.contains(source.gguf() != nullptr ? kOutput.gguf : kOutput.hf)) {
    return make_error(ErrorCode::kCorrupt, "{}: a reduced vocabulary without a head of its own, expected tensor '{}'",
                      in.path(), kOutput.gguf);
  }
  return write_drafter(config, tensors, vocabulary, options.target, path);
}

}  // namespace dspark
