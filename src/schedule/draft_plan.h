// Which sequences a drafter that costs something drafts for, and how far (plan law), before its drafts exist: the step
// is rehearsed with what its recent drafts were like. Pure; step thread and tests.
#pragma once

#include <span>
#include <vector>

#include "schedule/verify_plan.h"

namespace dspark {

inline constexpr int kRehearsals = 8;

// A sequence that decodes in this step.
struct DraftProspect {
  std::span<const float> at_hand;  // survival of a draft that cost nothing, of a lookup; empty: there is none
  // Survival of drafts that the drafter has made lately, the newest of this sequence first, then others in a situation
  // like this one; empty: it is not known yet what it can do here.
  std::span<const std::span<const float>> recent;
  int context = 0;  // positions before its first row
  int most = 0;     // tokens that may be drafted; 0: none
};

struct DraftPlan {
  std::vector<int> lengths;  // [sequences]: tokens to draft
  int rows = 0;              // their sum
  double gain = 1.0;         // expected tokens a second over those without drafting
};

// What a drafted token's chance to survive must be for its row to pay, at the least: half of what the row's time brings
// in a step without drafts. Drafting on behind a token with less would be in vain.
double least_survival(int sequences, const StepBase& base, const CostModel& cost);

// Tries to draft for nobody, for those that have nothing at hand, for those that have little, and so on up to all, each
// with whole and half drafts, and takes what promises most. Drafts are made where it is not known what they bring. With
// few sequences the mean over several rehearsals counts; with many their number is the mean. `drafter`: its number
// among those that cost time.
DraftPlan plan_drafts(std::span<const DraftProspect> sequences, const StepBase& base, const CostModel& cost,
                      const VerifyLimits& limits, int drafter = 0);

}  // namespace dspark
