// See recipe.h.
#include "train/recipe.h"

#include <algorithm>

#include "base/json.h"
#include "base/read_file.h"

namespace dspark {
namespace {

using nlohmann::json;

constexpr int64_t kMostBytes = 1 << 20;

// Reads keys of one object, and in the end says which ones nobody asked for.
class Keys {
 public:
  Keys(const json& object, std::string name) : object_(object), name_(std::move(name)) {}

  template <class T>
  Status get(const char* key, T* value, double low, double high) {
    known_.push_back(key);
    DSPARK_TRY(*value, json_get_or<T>(object_, key, *value, name_));
    if (static_cast<double>(*value) < low || static_cast<double>(*value) > high) {
      return make_error(ErrorCode::kCorrupt, "{}: {} is {}, expected {} to {}", name_, key, *value, low, high);
    }
    return Ok{};
  }
  template <class T>
  Status get(const char* key, T* value) {
    known_.push_back(key);
    DSPARK_TRY(*value, json_get_or<T>(object_, key, *value, name_));
    return Ok{};
  }
  Result<Keys> part(const char* key) {
    known_.push_back(key);
    static const json kEmpty = json::object();
    const auto found = object_.find(key);
    if (found != object_.end() && !found->is_object()) {
      return make_error(ErrorCode::kCorrupt, "{}: {} is no object", name_, key);
    }
    return Keys(found == object_.end() ? kEmpty : *found, fmt::format("{}, {}", name_, key));
  }
  Status done() const {
    for (const auto& [key, value] : object_.items()) {
      if (std::find(known_.begin(), known_.end(), key) == known_.end()) {
        return make_error(ErrorCode::kCorrupt, "{}: unknown key {}; known: {}", name_, key, fmt::join(known_, ", "));
      }
    }
    return Ok{};
  }

 private:
  const json& object_;
  std::string name_;
  std::vector<std::string> known_;
};

Result<DraftHead> head_from_name(const std::string& name) {
  for (const DraftHead head : {DraftHead::kNone, DraftHead::kMarkov, DraftHead::kGated, DraftHead::kRnn}) {
    if (name == draft_head_name(head)) return head;
  }
  return make_error(ErrorCode::kCorrupt, "head \"{}\", expected none, markov, gated or rnn", name);
}

Status read_drafter(Keys keys, const ModelConfig& target, const std::string& path, Recipe* recipe) {
  DsparkConfig& drafter = recipe->drafter;
  ModelConfig& shape = drafter.backbone;
  shape = target;
  shape.architecture = "dflash";
  shape.layers = 1;
  shape.local.clear();
  shape.experts = 0;
  shape.gate = Gate::kSilu;
  shape.embedding_scale = 1.0f;
  drafter.block_size = 7;
  drafter.rank = 128;
  drafter.mask_embedding = true;
  drafter.target_layer_count = target.layers;
  std::string head = "markov";
  DSPARK_RETURN_IF_ERROR(keys.get("layers", &shape.layers, 1, kMaxDraftLayers));
  DSPARK_RETURN_IF_ERROR(keys.get("ffn", &shape.ffn, 1, 1 << 20));
  DSPARK_RETURN_IF_ERROR(keys.get("heads", &shape.heads, 1, 4096));
  DSPARK_RETURN_IF_ERROR(keys.get("kv_heads", &shape.kv_heads, 1, 4096));
  DSPARK_RETURN_IF_ERROR(keys.get("block", &drafter.block_size, 2, kMaxDraftSlots));
  DSPARK_RETURN_IF_ERROR(keys.get("head", &head));
  DSPARK_RETURN_IF_ERROR(keys.get("rank", &drafter.rank, 1, 4096));
  DSPARK_RETURN_IF_ERROR(keys.get("causal", &drafter.causal));
  DSPARK_RETURN_IF_ERROR(keys.get("lookup", &drafter.lookup));
  drafter.confidence = true;
  DSPARK_RETURN_IF_ERROR(keys.get("confidence", &drafter.confidence));
  DSPARK_RETURN_IF_ERROR(keys.get("vocabulary", &recipe->vocabulary, 0, target.vocab));
  DSPARK_RETURN_IF_ERROR(keys.get("target_layers", &drafter.target_layers));
  DSPARK_RETURN_IF_ERROR(keys.get("from_layers", &recipe->from_layers));
  DSPARK_RETURN_IF_ERROR(keys.done());
  DSPARK_TRY(drafter.head, head_from_name(head));
  if (drafter.head == DraftHead::kNone) drafter.rank = 0;
  drafter.confidence_sees_token = drafter.confidence && drafter.rank > 0;
  const auto ascends = [&](const std::vector<int>& layers) {
    return std::is_sorted(layers.begin(), layers.end(), std::less_equal<>()) && !layers.empty() &&
           layers.front() >= 0 && layers.back() < target.layers;
  };
  if (!ascends(drafter.target_layers)) {
    return make_error(ErrorCode::kCorrupt, "{}: target_layers must ascend from 0 to {} at most", path,
                      target.layers - 1);
  }
  if (!recipe->from_layers.empty() && static_cast<int>(recipe->from_layers.size()) != shape.layers) {
    return make_error(ErrorCode::kCorrupt, "{}: {} from_layers for {} layers", path, recipe->from_layers.size(),
                      shape.layers);
  }
  for (const int layer : recipe->from_layers) {
    if (layer < 0 || layer >= target.layers) {
      return make_error(ErrorCode::kCorrupt, "{}: from_layers has {}, the target 0 to {}", path, layer,
                        target.layers - 1);
    }
  }
  if (shape.heads % shape.kv_heads != 0) {
    return make_error(ErrorCode::kCorrupt, "{}: {} heads do not divide among {} kv_heads", path, shape.heads,
                      shape.kv_heads);
  }
  return Ok{};
}

Status read_training(Keys keys, Recipe* recipe) {
  DSPARK_RETURN_IF_ERROR(keys.get("seed", &recipe->seed));
  DSPARK_RETURN_IF_ERROR(keys.get("start_from", &recipe->start_from));
  DSPARK_RETURN_IF_ERROR(keys.get("steps", &recipe->steps, 1, 1e9));
  DSPARK_RETURN_IF_ERROR(keys.get("conversations", &recipe->conversations, 1, 4096));
  DSPARK_RETURN_IF_ERROR(keys.get("held_out_every", &recipe->held_out_every, 0, 1e6));
  DSPARK_RETURN_IF_ERROR(keys.get("anchors", &recipe->batch.anchors, 1, 1e5));
  DSPARK_RETURN_IF_ERROR(keys.get("window", &recipe->batch.window, 1, 1e6));
  DSPARK_RETURN_IF_ERROR(keys.get("short_blocks", &recipe->batch.short_blocks, 0, 1));
  DSPARK_RETURN_IF_ERROR(keys.get("lookup_drop", &recipe->batch.lookup_drop, 0, 1));
  DSPARK_RETURN_IF_ERROR(keys.get("cross_entropy", &recipe->loss.cross_entropy, 0, 1e3));
  DSPARK_RETURN_IF_ERROR(keys.get("l1", &recipe->loss.l1, 0, 1e3));
  DSPARK_RETURN_IF_ERROR(keys.get("soft", &recipe->loss.soft, 0, 1e3));
  DSPARK_RETURN_IF_ERROR(keys.get("confidence", &recipe->loss.confidence, 0, 1e3));
  DSPARK_RETURN_IF_ERROR(keys.get("decay", &recipe->loss.decay, 0, 1e3));
  DSPARK_RETURN_IF_ERROR(keys.get("soft_steps", &recipe->soft_steps, 0, 1e9));
  DSPARK_RETURN_IF_ERROR(keys.get("rate", &recipe->rate, 0, 10));
  DSPARK_RETURN_IF_ERROR(keys.get("warm_up", &recipe->warm_up, 0, 1e9));
  DSPARK_RETURN_IF_ERROR(keys.get("rate_floor", &recipe->rate_floor, 0, 1));
  DSPARK_RETURN_IF_ERROR(keys.get("weight_decay", &recipe->optimiser.weight_decay, 0, 10));
  DSPARK_RETURN_IF_ERROR(keys.get("beta2", &recipe->optimiser.beta2, 0, 1));
  DSPARK_RETURN_IF_ERROR(keys.get("clip", &recipe->optimiser.clip, 0, 1e6));
  DSPARK_RETURN_IF_ERROR(keys.get("evaluate_every", &recipe->evaluate_every, 1, 1e9));
  DSPARK_RETURN_IF_ERROR(keys.get("evaluate_conversations", &recipe->evaluate_conversations, 0, 1e6));
  DSPARK_RETURN_IF_ERROR(keys.get("save_every", &recipe->save_every, 1, 1e9));
  return keys.done();
}

Result<json> parse_recipe(const std::string& text, const std::string& path) {
  DSPARK_TRY(json document, parse_json(text, path));
  if (!document.is_object()) return make_error(ErrorCode::kCorrupt, "{}: expected an object", path);
  return document;
}

}  // namespace

Result<Recipe> load_recipe(const std::string& path, const ModelConfig& target) {
  Recipe recipe;
  DSPARK_TRY(recipe.text, read_file(path, kMostBytes));
  DSPARK_TRY(const json document, parse_recipe(recipe.text, path));
  Keys keys(document, path);
  DSPARK_TRY(Keys drafter, keys.part("drafter"));
  DSPARK_TRY(Keys training, keys.part("training"));
  DSPARK_RETURN_IF_ERROR(keys.done());
  DSPARK_RETURN_IF_ERROR(read_drafter(drafter, target, path, &recipe));
  DSPARK_RETURN_IF_ERROR(read_training(training, &recipe));
  if (recipe.steps == 0) return make_error(ErrorCode::kCorrupt, "{}: training has no steps", path);
  recipe.batch.block = recipe.drafter.block_size;
  return recipe;
}

Result<Recipe> fine_tuning_recipe(const std::string& path, const DsparkConfig& drafter) {
  Recipe recipe;
  recipe.drafter = drafter;
  recipe.vocabulary = drafter.draft_vocab;
  recipe.steps = 300;
  recipe.held_out_every = 5;
  recipe.rate = 1e-4;
  recipe.warm_up = 30;
  recipe.evaluate_conversations = 500;
  if (!path.empty()) {
    DSPARK_TRY(recipe.text, read_file(path, kMostBytes));
    DSPARK_TRY(const json document, parse_recipe(recipe.text, path));
    DSPARK_TRY(const Keys training, Keys(document, path).part("training"));
    DSPARK_RETURN_IF_ERROR(read_training(training, &recipe));
  }
  recipe.batch.block = drafter.max_tokens();
  return recipe;
}

}  // namespace dspark
