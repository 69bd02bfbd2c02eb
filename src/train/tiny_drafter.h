// Tiny drafters, batches and targets of random numbers: for tests only.
#pragma once

#include <cmath>

#include "train/batch_maker.h"
#include "train/drafter_graph.h"
#include "train/initialise.h"

namespace dspark {

inline DsparkConfig tiny_config(DraftHead head, bool lookup, bool causal, int layers = 1) {
  DsparkConfig config;
  ModelConfig& shape = config.backbone;
  shape.layers = layers;
  shape.hidden = 16;
  shape.ffn = 24;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 8;
  shape.vocab = 40;
  shape.norm_eps = 1e-6f;
  config.block_size = 4;
  config.target_layers = {0, 1};
  config.head = head;
  config.rank = head == DraftHead::kNone ? 0 : 6;
  config.causal = causal;
  config.draft_vocab = shape.vocab;
  config.confidence = true;
  config.confidence_sees_token = config.rank > 0;
  config.lookup = lookup;
  config.mask_embedding = true;
  return config;
}

inline std::vector<float> random_values(const char* name, int64_t count, double deviation) {
  Parameter values = {.name = name,
                      .shape = {count},
                      .decays = false,
                      .value = std::vector<float>(static_cast<size_t>(count)),
                      .gradient = {},
                      .first_moment = {},
                      .second_moment = {}};
  fill_random(1, deviation, &values);
  return std::move(values.value);
}

inline void fill_all(DrafterParameters* parameters) {
  for (Parameter& parameter : parameters->all) {
    const bool norm = parameter.name.find("norm") != std::string::npos;
    const double width = parameter.shape.size() < 2 ? 4.0 : static_cast<double>(parameter.shape.back());
    fill_random(7, norm ? 0.2 : 1.0 / std::sqrt(width), &parameter);
    for (float& value : parameter.value) value += norm ? 1.0f : 0.0f;
  }
}

// Two sequences; three blocks share the context of the first.
inline TrainBatch tiny_batch(const DsparkConfig& config, const DraftVocabulary& vocabulary) {
  TrainBatch batch;
  for (const int positions : {9, 5}) {
    for (int p = 0; p < positions; ++p) batch.context_positions.push_back(p + 2);
  }
  batch.features = random_values("features", batch.context() * config.features(), 1.0);
  batch.blocks = {{0, 4, 0, 4}, {2, 6, 4, 2}, {3, 9, 6, 3}, {9, 14, 9, 4}};
  StepRandom random(3, 0);
  for (const TrainBlock& block : batch.blocks) {
    const int anchor = batch.context_positions[static_cast<size_t>(block.context_end) - 1] + 1;
    for (int j = 0; j < block.slots; ++j) {
      const auto token = [&] { return static_cast<int32_t>(random.below(config.backbone.vocab)); };
      batch.positions.push_back(anchor + j);
      batch.inputs.push_back(j == 0 ? token() : -1);
      batch.lookup_token.push_back(j > 0 ? token() : -1);
      batch.lookup_next.push_back(j < 2 ? token() : -1);
      batch.previous.push_back(token());
      batch.labels.push_back(token());
      batch.labels_drafted.push_back(vocabulary.row(batch.labels.back()));
      batch.temperatures.push_back(j % 2 == 0 ? 0.0 : 0.8);
      batch.seeds.push_back(11);
      double total = 0;
      std::vector<float> weights(kTargetTokens, 0.0f);
      for (int i = 0; i < 12; ++i) total += weights[static_cast<size_t>(i)] = static_cast<float>(random.uniform());
      for (int i = 0; i < kTargetTokens; ++i) {
        batch.target_rows.push_back(i < 12 ? vocabulary.row(3 * i + j) : -1);
        batch.target_probabilities.push_back(static_cast<float>(0.97 * weights[static_cast<size_t>(i)] / total));
      }
    }
  }
  return batch;
}

}  // namespace dspark
