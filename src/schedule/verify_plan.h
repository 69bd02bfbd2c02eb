// How many drafted tokens a step verifies, and whose (plan law): the cut of all (request, token) pairs, likeliest
// first, that brings the most expected tokens a second by the cost model. Pure; the step thread, the simulator, tests.
//
// DSpark: confidence-scheduled verification, "DSpark: Confidence-Scheduled Speculative Decoding with
// Semi-Autoregressive Generation" (arXiv 2607.05147), section on the scheduler. Whether and how far to draft at all is
// planned before, in draft_plan.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schedule/cost_model.h"

namespace dspark {

// A sequence that decodes in this step.
struct DraftedSequence {
  // The chance that drafted tokens 1, 2, ... are all accepted up to each: at most 1, never growing.
  std::span<const float> survival;
  int context = 0;  // positions before its first row
};

// The step without a single drafted token.
struct StepBase {
  int prompt_rows = 0;
  int64_t prompt_context = 0;  // positions that they look at
  int joining = 0;             // sequences that will decode once their prompts are done
  DraftRows draft_rows = {};   // that drafters have computed for it
};

// What a plan must promise over the step without drafts. Many cuts promise nearly the same where rows cost in
// proportion, and the best of many uncertain promises is too good: what is gained by less is lost as often.
inline constexpr double kLeastPlanGain = 1.03;

struct VerifyLimits {
  int most_each = 1 << 20;  // drafted tokens of one sequence
  int fixed = -1;           // so many of each sequence that has them, without a plan; -1: planned
  int budget = -1;          // so many of all sequences together, likeliest first, whether they pay or not; -1: planned
  double floor = 0.0;       // tokens less likely than this to survive are never verified
};

struct VerifyPlan {
  std::vector<int> depths;  // [sequences]: drafted tokens to verify of each
  int budget = 0;           // their sum
  StepShape shape;          // of the whole step
  double expected_ms = 0.0;
  double decode_ms = 0.0;        // of it, what is not the prompts', with a row for each that joins
  double expected_tokens = 0.0;  // of the decoding sequences
};

// The best cut, or none where it promises less than kLeastPlanGain. Rows of prompts cost what they cost without any
// draft, so that a long prompt in the same step makes drafts neither cheaper nor dearer than they are. Those who are
// about to decode count as decoding: a token that is not guessed now will come out of a step that they share. Ties take
// the smaller budget; equal survivals the earlier sequence.
VerifyPlan plan_verification(std::span<const DraftedSequence> sequences, const StepBase& base, const CostModel& cost,
                             const VerifyLimits& limits);

// One line for logs: "16 sequences, verifies 23 (1.4 each): 39 rows, 8.2 ms, 31.5 tokens".
std::string describe(const VerifyPlan& plan);

}  // namespace dspark
