// What a DSpark drafter is like: sizes, heads and options, from a GGUF (llama.cpp's layout, architecture `dflash`) or
// from DeepSpec's folder of config.json and safetensors (docs/drafter.md). Read once, then const: any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "model/config.h"
#include "model/model_file.h"

namespace dspark {

enum class DraftHead { kNone, kMarkov, kGated, kRnn };
// "none", "markov", "gated", "rnn".
const char* draft_head_name(DraftHead head);

inline constexpr int kMaxDraftSlots = 16;
inline constexpr int kMaxDraftLayers = 8;

struct DsparkConfig {
  ModelConfig backbone;                  // of the drafter's layers; vocab is the target's
  std::optional<float> embedding_scale;  // of the embedding that it uses; nothing: the target's
  int block_size = 0;                    // slots of one draft at most
  std::vector<int> target_layers;        // behind which features are taken, ascending; -1: the embedding
  int mask_token = 0;
  bool sample_from_anchor = true;  // slot j predicts position a + j + 1, else its own position a + j
  bool causal = false;             // inside the block
  DraftHead head = DraftHead::kNone;
  int rank = 0;         // of the head; 0 without one
  int draft_vocab = 0;  // rows of the drafter's head; fewer than the vocabulary where there is a map
  bool confidence = false;
  bool confidence_sees_token = false;  // besides the slot's state
  bool lookup = false;                 // lookup-conditioned slots
  bool mask_embedding = false;         // a vector of its own instead of the mask token's embedding

  // What it was made for; nothing and 0 where the file does not say.
  std::optional<Sha256Digest> target_digest;
  int target_layer_count = 0;
  std::string license, card;

  int features() const { return static_cast<int>(target_layers.size()) * backbone.hidden; }
  // Tokens that `slots` slots predict, and the slots that `tokens` predictions need.
  int tokens_of(int slots) const { return sample_from_anchor ? slots : slots - 1; }
  int slots_of(int tokens) const { return sample_from_anchor ? tokens : tokens + 1; }
  int max_tokens() const { return tokens_of(block_size); }
};

// kCorrupt or kUnsupported with the value found and what was expected.
Result<DsparkConfig> read_dspark_config(const ModelFile& file);

// kInvalidArgument, with both values, unless the drafter fits the target. `digest`: the target's, if it is known.
Status check_target(const DsparkConfig& config, const ModelConfig& target, const std::optional<Sha256Digest>& digest,
                    const std::string& path);

}  // namespace dspark
