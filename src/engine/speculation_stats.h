// What speculation has done so far, for metrics and tests. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace dspark {

inline constexpr int kDraftPositions = 16;  // that are counted apart
inline constexpr int kSurvivalBins = 20;    // equal parts of [0, 1]

// What survival was foretold at a place in the draft, and what came: one bin.
struct SurvivalBin {
  int64_t tokens = 0, accepted = 0;
  double foretold = 0.0;  // sum
};
using SurvivalBins = std::array<SurvivalBin, kSurvivalBins>;

// Expected calibration error: the mean of |foretold - accepted| over the bins, weighted by their tokens. 0 without any.
double calibration_error(const SurvivalBins& bins);
// Area under the ROC curve, as far as bins tell: how often a token that was accepted had the higher bin, equal ones
// counting half. NaN unless there are accepted ones and others.
double area_under_curve(const SurvivalBins& bins);

// Kinds of task, as requests and metrics name them; any other name counts as the first.
inline constexpr std::array<std::string_view, 5> kTaskBuckets = {"other", "code", "json", "math", "chat"};

// What drafts of one kind of task promised and brought.
struct BucketStats {
  int64_t verified = 0, accepted = 0;  // tokens
  double foretold = 0.0;               // sum of their survival
};

struct SpeculationStats {
  int64_t verifications = 0;                                          // drafts of which something was verified
  int64_t failures = 0;                                               // of those, nothing accepted
  int64_t pauses = 0;                                                 // requests that stopped drafting for a while
  int64_t broken = 0;                                                 // drafts that held NaN
  int64_t drafts = 0, draft_rows = 0;                                 // that a drafter which costs time computed
  int64_t left_out = 0;                                               // that it might have, and the plan left out
  int64_t retried = 0;                                                // drafts made only to see what they bring by now
  int64_t cost_alarms = 0;                                            // times the cost model was off by more than 2
  std::array<int64_t, kDraftPositions> verified = {}, accepted = {};  // by place in the draft
  std::array<SurvivalBins, kDraftPositions> survival = {};            // by place in the draft, of what was verified
  std::array<BucketStats, kTaskBuckets.size()> buckets = {};          // of what was verified
  double expected_accepted = 0.0;                                     // by the drafters' own word
  double propose_seconds = 0.0, draft_seconds = 0.0, plan_seconds = 0.0;  // draft: of propose, the costly drafter's
};

}  // namespace dspark
