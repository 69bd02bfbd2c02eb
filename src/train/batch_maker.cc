// See batch_maker.h.
#include "train/batch_maker.h"

#include <algorithm>
#include <cmath>

#include "draft/ngram_index.h"
#include "kernels/half.h"

namespace dspark {
namespace {

struct Anchor {
  int position;
  int slots;
};

std::vector<Anchor> draw_anchors(const TrainConversation& conversation, const BatchOptions& options,
                                 StepRandom* random) {
  std::vector<Anchor> all;
  for (const auto& [first, end] : conversation.answers) {
    for (int a = first; a + 1 < end; ++a) all.push_back({a, std::min(options.block, end - 1 - a)});
  }
  const auto wanted = std::min(all.size(), static_cast<size_t>(options.anchors));
  for (size_t i = 0; i < wanted; ++i) {
    std::swap(all[i], all[i + static_cast<size_t>(random->below(static_cast<int64_t>(all.size() - i)))]);
  }
  all.resize(wanted);
  std::sort(all.begin(), all.end(), [](const Anchor& a, const Anchor& b) { return a.position < b.position; });
  for (Anchor& anchor : all) {
    if (random->uniform() < options.short_blocks) anchor.slots = 1 + static_cast<int>(random->below(anchor.slots));
  }
  return all;
}

void add_targets(const TargetFeatures& features, const DraftVocabulary& vocabulary, int position, TrainBatch* batch) {
  const auto at = static_cast<size_t>(position - features.first_prediction) * kTargetTokens;
  for (size_t i = at; i < at + kTargetTokens; ++i) {
    const int32_t token = features.tokens[i];
    batch->target_rows.push_back(token < 0 ? -1 : vocabulary.row(token));
    batch->target_probabilities.push_back(half_to_float(features.probabilities[i]));
  }
}

}  // namespace

uint32_t StepRandom::word() {
  const auto words =
      philox4x32({count_++, static_cast<uint32_t>(step_), static_cast<uint32_t>(step_ >> 32), 0x7261696e},
                 {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  return words[0];
}

void add_blocks(const TrainConversation& conversation, const TargetFeatures& features,
                const DraftVocabulary& vocabulary, const BatchOptions& options, StepRandom* random, TrainBatch* batch) {
  const std::vector<Anchor> anchors = draw_anchors(conversation, options, random);
  if (anchors.empty()) return;
  const std::vector<int32_t>& tokens = conversation.tokens;
  const int first_row = std::max(0, anchors.front().position - options.window), end_row = anchors.back().position;
  const auto base = static_cast<int>(batch->context()) - first_row;
  const size_t width = features.hidden.size() / static_cast<size_t>(features.positions);
  for (int p = first_row; p < end_row; ++p) batch->context_positions.push_back(p);
  const auto from = features.hidden.begin() + static_cast<int64_t>(static_cast<size_t>(first_row) * width);
  std::transform(from, features.hidden.begin() + static_cast<int64_t>(static_cast<size_t>(end_row) * width),
                 std::back_inserter(batch->features), [](uint16_t x) { return half_to_float(x); });
  NgramIndex index;
  for (const auto& [anchor, slots] : anchors) {
    while (index.size() <= anchor) index.append(tokens[static_cast<size_t>(index.size())]);
    std::vector<int32_t> proposal = index.continuation(slots);
    if (random->uniform() < options.lookup_drop) proposal.clear();
    batch->blocks.push_back({.context_first = base + std::max(0, anchor - options.window),
                             .context_end = base + anchor,
                             .first_slot = static_cast<int>(batch->slots()),
                             .slots = slots});
    for (int j = 0; j < slots; ++j) {
      const auto at = static_cast<size_t>(anchor + j), ahead = static_cast<size_t>(j);
      batch->positions.push_back(anchor + j);
      batch->inputs.push_back(j == 0 ? tokens[at] : -1);
      batch->lookup_token.push_back(j >= 1 && ahead <= proposal.size() ? proposal[ahead - 1] : -1);
      batch->lookup_next.push_back(ahead < proposal.size() ? proposal[ahead] : -1);
      batch->previous.push_back(tokens[at]);
      batch->labels.push_back(tokens[at + 1]);
      batch->labels_drafted.push_back(vocabulary.row(tokens[at + 1]));
      batch->temperatures.push_back(conversation.temperature);
      batch->seeds.push_back(conversation.seed);
      add_targets(features, vocabulary, anchor + j, batch);
    }
  }
}

}  // namespace dspark
