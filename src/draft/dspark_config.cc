// Reading and checking of dspark_config.h.
#include "draft/dspark_config.h"

#include <algorithm>

#include "base/json.h"
#include "draft/dspark_tensors.h"
#include "model/arch_common.h"

namespace dspark {
namespace {

// Dimension `axis` of a tensor; 0 if there is no such tensor.
int64_t dimension(const TensorSource& tensors, const char* name, int axis) {
  const TensorInfo* info = tensors.info(name);
  return info != nullptr && info->rank > axis ? info->shape[static_cast<size_t>(axis)] : 0;
}

int bounded(int64_t value) { return static_cast<int>(std::clamp<int64_t>(value, 0, INT32_MAX)); }

Result<DraftHead> head_from_name(std::string_view name, const std::string& path) {
  if (name == "none") return DraftHead::kNone;
  if (name == "markov" || name == "vanilla") return DraftHead::kMarkov;
  if (name == "gated") return DraftHead::kGated;
  if (name == "rnn") return DraftHead::kRnn;
  return make_error(ErrorCode::kUnsupported, "{}: sequential head '{}', expected none, markov, gated or rnn", path,
                    name);
}

// What the tensors say better than the parameters.
void read_shapes(const TensorSource& tensors, bool gguf, DsparkConfig* c) {
  const auto name = [&](const TensorName& both) { return gguf ? both.gguf : both.hf; };
  c->rank = bounded(dimension(tensors, name(drafter_tensor::kMarkovW1), 1));
  const int64_t map = dimension(tensors, drafter_tensor::kVocabularyMap, 0);
  c->draft_vocab = map > 0 ? bounded(map) : c->backbone.vocab;
  const int64_t confidence_inputs = dimension(tensors, name(drafter_tensor::kConfidence), 1);
  c->confidence = confidence_inputs > 0;
  c->confidence_sees_token = confidence_inputs > c->backbone.hidden;
  c->mask_embedding = tensors.contains(name(drafter_tensor::kMaskEmbedding));
}

Status read_windows(const GgufFile& file, ModelConfig* c) {
  DSPARK_TRY(const int32_t window, file.get_or<int32_t>("dflash.attention.sliding_window", 0));
  if (window == 0 || file.entry("dflash.attention.sliding_window_pattern") == nullptr) return Ok{};
  c->window = window;
  DSPARK_TRY(c->local, file.require_per_layer<bool>("dflash.attention.sliding_window_pattern",
                                                    static_cast<size_t>(std::clamp(c->layers, 0, kMaxDraftLayers))));
  c->local_rope = c->rope;
  return Ok{};
}

Result<DsparkConfig> read_gguf(const GgufFile& file) {
  DSPARK_TRY(const std::string_view architecture, file.require<std::string_view>("general.architecture"));
  if (architecture != "dflash") {
    return make_error(ErrorCode::kUnsupported, "{}: architecture '{}' is no drafter, expected 'dflash'", file.path(),
                      architecture);
  }
  DsparkConfig c;
  DSPARK_TRY(c.backbone, read_gguf_shape(file));
  const int64_t embedding = dimension(file, drafter_tensor::kEmbedding.gguf, 0);
  const int64_t rows = embedding > 0 ? embedding : dimension(file, drafter_tensor::kMarkovW1.gguf, 0);
  DSPARK_TRY(c.backbone.vocab, file.get_or<int32_t>("dflash.vocab_size", bounded(rows)));
  if (const GgufEntry* tokens = file.entry("tokenizer.ggml.tokens"); c.backbone.vocab == 0 && tokens != nullptr) {
    c.backbone.vocab = bounded(static_cast<int64_t>(std::min<uint64_t>(tokens->count, INT32_MAX)));
  }
  DSPARK_RETURN_IF_ERROR(read_windows(file, &c.backbone));
  read_shapes(file, true, &c);
  if (file.entry("dflash.embedding_scale") != nullptr) {
    DSPARK_TRY(c.embedding_scale, file.require<float>("dflash.embedding_scale"));
  }
  DSPARK_TRY(c.block_size, file.get_or<int32_t>("dflash.block_size", kMaxDraftSlots));
  DSPARK_TRY(c.target_layers, file.require<std::vector<int32_t>>("dflash.target_layers"));
  for (int& layer : c.target_layers) layer = static_cast<int>(int64_t{layer} - 1);
  DSPARK_TRY(c.mask_token, file.require<int32_t>("tokenizer.ggml.mask_token_id"));
  DSPARK_TRY(c.causal, file.get_or<bool>("dflash.attention.causal", false));
  DSPARK_TRY(const std::string_view head, file.get_or<std::string_view>("dspark.head", c.rank > 0 ? "markov" : "none"));
  DSPARK_TRY(c.head, head_from_name(head, file.path()));
  DSPARK_TRY(c.sample_from_anchor, file.get_or<bool>("dflash.sample_from_anchor", c.head != DraftHead::kNone));
  DSPARK_TRY(c.lookup, file.get_or<bool>("dspark.lookup", false));
  DSPARK_TRY(c.target_layer_count, file.get_or<int32_t>("dspark.target.layers", 0));
  DSPARK_TRY(c.license, file.get_or<std::string_view>("dspark.license", ""));
  DSPARK_TRY(c.card, file.get_or<std::string_view>("dspark.card", ""));
  if (file.entry("dspark.target.digest") != nullptr) {
    DSPARK_TRY(const std::string_view hex, file.require<std::string_view>("dspark.target.digest"));
    c.target_digest = sha256_from_hex(hex);
    if (!c.target_digest) {
      return make_error(ErrorCode::kCorrupt, "{}: 'dspark.target.digest' has {} characters, expected 64 hex digits",
                        file.path(), hex.size());
    }
  }
  return c;
}

Status read_hf_head(const nlohmann::json& config, const std::string& name, DsparkConfig* c) {
  DSPARK_TRY(const int32_t rank, json_get_or<int32_t>(config, "markov_rank", c->rank, name));
  if (rank != c->rank) {
    return make_error(ErrorCode::kCorrupt, "{}: markov_rank is {}, but the file's Markov factors have rank {}", name,
                      rank, c->rank);
  }
  DSPARK_TRY(const std::string type,
             json_get_or<std::string>(config, "markov_head_type", rank > 0 ? "vanilla" : "none", name));
  DSPARK_TRY(c->head, head_from_name(rank > 0 ? std::string_view(type) : "none", name));
  return Ok{};
}

Result<DsparkConfig> read_hf(const ModelFile& file) {
  const HfFolder& folder = *file.hf();
  const nlohmann::json& config = folder.config();
  const std::string name = folder.config_name();
  DSPARK_TRY(const auto kinds, json_require<std::vector<std::string>>(config, "architectures", name));
  if (kinds.size() != 1 || kinds[0] != "Qwen3DSparkModel") {
    return make_error(ErrorCode::kUnsupported, "{}: architecture '{}', expected 'Qwen3DSparkModel'", name,
                      kinds.empty() ? "" : kinds[0]);
  }
  DsparkConfig c;
  DSPARK_TRY(c.backbone, read_common_config(file));
  DSPARK_TRY(const bool biased, json_get_or<bool>(config, "attention_bias", false, name));
  DSPARK_TRY(const std::string act, json_get_or<std::string>(config, "hidden_act", "silu", name));
  if (biased || act != "silu") {
    return make_error(ErrorCode::kUnsupported, "{}: attention_bias {} and hidden_act '{}', expected false and 'silu'",
                      name, biased, act);
  }
  const auto types = config.find("layer_types");
  if (types != config.end() && types->is_array()) {
    for (const auto& type : *types) c.backbone.local.push_back(type == "sliding_attention");
    if (std::find(c.backbone.local.begin(), c.backbone.local.end(), true) == c.backbone.local.end()) {
      c.backbone.local.clear();
    } else {
      DSPARK_TRY(c.backbone.window, json_require<int32_t>(config, "sliding_window", name));
      c.backbone.local_rope = c.backbone.rope;
    }
  }
  read_shapes(folder, false, &c);
  DSPARK_TRY(c.block_size, json_require<int32_t>(config, "block_size", name));
  DSPARK_TRY(c.target_layers, json_require<std::vector<int32_t>>(config, "target_layer_ids", name));
  DSPARK_TRY(c.mask_token, json_require<int32_t>(config, "mask_token_id", name));
  DSPARK_TRY(c.causal, json_get_or<bool>(config, "is_causal", false, name));
  DSPARK_RETURN_IF_ERROR(read_hf_head(config, name, &c));
  DSPARK_TRY(c.lookup, json_get_or<bool>(config, "lookup_slots", false, name));
  DSPARK_TRY(c.target_layer_count, json_get_or<int32_t>(config, "num_target_layers", 0, name));
  DSPARK_TRY(const std::string hex, json_get_or<std::string>(config, "dspark_target_digest", "", name));
  c.target_digest = sha256_from_hex(hex);
  return c;
}

Status check(const DsparkConfig& c, const std::string& path) {
  DSPARK_RETURN_IF_ERROR(check_config(c.backbone, path));
  struct Bound {
    const char* what;
    int64_t value, low, high;
  };
  const bool heads = c.head != DraftHead::kNone;
  const Bound bounds[] = {
      {"layer count", c.backbone.layers, 1, kMaxDraftLayers},
      {"block size", c.block_size, c.sample_from_anchor ? 1 : 2, kMaxDraftSlots},
      {"number of target layers", static_cast<int64_t>(c.target_layers.size()), 1, 64},
      {"mask token", c.mask_token, 0, c.backbone.vocab - 1},
      {"rank of the sequential head", c.rank, heads ? 1 : 0, heads ? 1 << 14 : 0},
      {"draft vocabulary", c.draft_vocab, 1, c.backbone.vocab},
      {"layers with a window or without", static_cast<int64_t>(c.backbone.local.size()),
       c.backbone.local.empty() ? 0 : c.backbone.layers, c.backbone.layers},
  };
  for (const Bound& bound : bounds) {
    if (bound.value < bound.low || bound.value > bound.high) {
      return make_error(ErrorCode::kCorrupt, "{}: {} is {}, expected {} to {}", path, bound.what, bound.value,
                        bound.low, bound.high);
    }
  }
  for (size_t i = 0; i < c.target_layers.size(); ++i) {
    const int least = i == 0 ? -1 : c.target_layers[i - 1] + 1;
    if (c.target_layers[i] < least) {
      return make_error(ErrorCode::kCorrupt, "{}: target layer {} is {}, expected at least {}: ascending from -1", path,
                        i, c.target_layers[i], least);
    }
  }
  return Ok{};
}

}  // namespace

const char* draft_head_name(DraftHead head) {
  constexpr const char* kNames[] = {"none", "markov", "gated", "rnn"};
  return kNames[static_cast<size_t>(head)];
}

Result<DsparkConfig> read_dspark_config(const ModelFile& file) {
  Result<DsparkConfig> config = file.gguf() != nullptr ? read_gguf(*file.gguf()) : read_hf(file);
  if (!config.ok()) return config;
  DSPARK_RETURN_IF_ERROR(check(*config, file.tensors().path()));
  return config;
}

Status check_target(const DsparkConfig& config, const ModelConfig& target, const std::optional<Sha256Digest>& digest,
                    const std::string& path) {
  constexpr const char* kHint = "choose the drafter that was trained for this model";
  const auto differs = [&](const char* what, int64_t found, int64_t expected) {
    return make_error(ErrorCode::kInvalidArgument, "{}: the drafter's {} is {}, the model's is {}; {}", path, what,
                      found, expected, kHint);
  };
  if (config.target_digest && digest && *config.target_digest != *digest) {
    return make_error(ErrorCode::kInvalidArgument, "{}: the drafter is for the model {}, this one is {}; {}", path,
                      to_hex(*config.target_digest).substr(0, 16), to_hex(*digest).substr(0, 16), kHint);
  }
  if (config.backbone.vocab != target.vocab) return differs("vocabulary", config.backbone.vocab, target.vocab);
  if (config.backbone.hidden != target.hidden) return differs("hidden size", config.backbone.hidden, target.hidden);
  if (config.target_layer_count != 0 && config.target_layer_count != target.layers) {
    return differs("number of target layers", config.target_layer_count, target.layers);
  }
  if (config.target_layers.back() >= target.layers) {
    return make_error(ErrorCode::kInvalidArgument, "{}: the drafter looks at layer {}, the model has {}; {}", path,
                      config.target_layers.back(), target.layers, kHint);
  }
  return Ok{};
}

}  // namespace dspark
