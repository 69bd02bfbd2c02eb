// How good a drafter is, on prompts that it was not trained on: the loop of `dspark eval`. The target answers through
// the step loop while its drafters are watched. One thread; the engine's compute.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "draft/calibration.h"
#include "draft/watched_drafter.h"
#include "engine/engine.h"
#include "engine/request_stream.h"

namespace dspark {

struct EvalOptions {
  SamplingParams sampling;  // its seed is the first prompt's; each further one has the next
  int max_tokens = 256;
  int slots = 16;  // answers at once
};

// At one place of the drafts.
struct PositionQuality {
  int64_t reached = 0;                       // drafts whose tokens before it were accepted
  int64_t accepted = 0;                      // of those, this one too
  std::vector<ChanceOutcome> survival = {};  // foretold and what came, of all drafts that reach so far
  // Of the drafts that reached it: the sum of what rejection by ratio would accept, the sum of min(p, q) over the
  // tokens, and over how many. Only at temperature 1.
  double ratio_sum = 0.0;
  int64_t ratio_count = 0;
};

// Tokens and the target's steps that they took.
struct Pace {
  int64_t tokens = 0, steps = 0;
  double tau() const { return steps == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(steps); }
};

struct DraftQuality {
  int64_t prompts = 0, drafts = 0;
  Pace pace;   // all tokens behind the first, which the prompt gives
  Pace fresh;  // of steps that begin with a token whose 6-gram had not been seen in prompt or answer
  std::vector<PositionQuality> positions;
  std::vector<ConfidenceRecord>
      confidences;  // of drafts with a confidence head's logits: what calibration is fitted to

  void add(const DraftQuality& other);
};

// Adds what an answer tells of the pace.
void add_pace(const StreamedAnswer& answer, DraftQuality* quality);
// Adds what a sequence's drafts tell.
void add_drafts(const WatchedSequence& sequence, DraftQuality* quality);

// Answers all prompts. `watched`: the engine's drafters. False from `report`, which hears how many are done, ends it
// with kCancelled.
Result<DraftQuality> evaluate_drafts(Engine& engine, std::span<const std::shared_ptr<WatchedDrafter>> watched,
                                     const std::vector<std::vector<int32_t>>& prompts, const EvalOptions& options,
                                     const std::function<bool(int64_t done)>& report);

}  // namespace dspark
