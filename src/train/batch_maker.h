// From conversations and the target's features to TrainBatch: anchors, block lengths and lookups, drawn from a
// counter-based generator, so that a step's batch depends on the seed and the step alone. Pure; one thread.
#pragma once

#include <cstdint>

#include "base/noise.h"
#include "train/features.h"
#include "train/train_batch.h"
#include "train/train_data.h"

namespace dspark {

// Words of Philox under (seed, step): the n-th draw of a step is the same wherever it is made.
class StepRandom {
 public:
  StepRandom(uint64_t seed, uint64_t step) : seed_(seed), step_(step) {}
  uint32_t word();
  double uniform() { return (word() + 0.5) * 0x1p-32; }
  // 0 to n - 1.
  int64_t below(int64_t n) { return static_cast<int64_t>((uint64_t{word()} * static_cast<uint64_t>(n)) >> 32); }

 private:
  uint64_t seed_, step_;
  uint32_t count_ = 0;
};

struct BatchOptions {
  int block = 7;               // slots of a draft
  int anchors = 24;            // in one conversation, at most
  int window = 512;            // positions before the anchor that it looks at
  double short_blocks = 0.25;  // chance that a block has fewer slots
  double lookup_drop = 0.15;   // chance that a block's lookup is left out
};

// Adds blocks of one conversation. Anchors are drawn without repetition from those whose next token the target wrote;
// with fewer than options.anchors all are taken.
void add_blocks(const TrainConversation& conversation, const TargetFeatures& features,
                const DraftVocabulary& vocabulary, const BatchOptions& options, StepRandom* random, TrainBatch* batch);

}  // namespace dspark
