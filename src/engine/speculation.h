// Speculation: who guesses what for whom, and how many of the guesses a step verifies. It lets the drafters propose,
// takes for each choice the proposal that promises most, and cuts all of them by the cost model. Nothing here can
// change a token, only how fast it comes. Step thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "draft/drafter.h"
#include "schedule/cost_model.h"
#include "schedule/draft_health.h"
#include "schedule/verify_plan.h"

namespace dspark {

inline constexpr int kMostDrafted = 16;  // tokens of one draft

struct SpeculationOptions {
  bool enabled = true;
  int fixed = -1;                  // verify so many tokens of each draft, without a plan; -1: planned
  int most_tokens = kMostDrafted;  // of one draft, at most
  double floor = 0.0;              // tokens less likely than this to survive are not verified
  int window = 2048;               // how many positions a drafter may look back
};

// A choice that decodes in this step.
struct Speculated {
  uint64_t id = 0;
  std::span<const int32_t> tokens;        // prompt and output; the last one has not been computed
  std::span<uint8_t* const> blocks = {};  // of the KV of all positions before it
  int context_begin = 0;                  // from here on, the drafter's KV has been written
  int room = 0;                           // tokens that may be drafted, at most
  DraftSampler* sampler = nullptr;

  std::vector<DraftToken> draft = {};  // the answer: what to verify
};

inline constexpr int kDraftPositions = 16;  // that are counted apart

struct SpeculationStats {
  int64_t verifications = 0;                                          // drafts of which something was verified
  int64_t failures = 0;                                               // of those, nothing accepted
  int64_t pauses = 0;                                                 // requests that stopped drafting for a while
  int64_t broken = 0;                                                 // drafts that held NaN
  std::array<int64_t, kDraftPositions> verified = {}, accepted = {};  // by place in the draft
  double expected_accepted = 0.0;                                     // by the drafters' own word
  double propose_seconds = 0.0, plan_seconds = 0.0;
};

class Speculation {
 public:
  // In the order of preference: of equally good proposals the first drafter's counts.
  Speculation(SpeculationOptions options, std::vector<std::shared_ptr<Drafter>> drafters);

  // Fills the draft of each choice: as much of the best proposal as is worth verifying.
  void propose(std::span<Speculated* const> choices, const CostModel& cost);

  // What became of a choice's draft: so many of its tokens were accepted. Also for choices without one.
  void verified(uint64_t id, int accepted);

  // The choice has ended.
  void release(uint64_t id);

  const SpeculationStats& stats() const { return stats_; }
  const VerifyPlan& plan() const { return plan_; }  // of the newest step

 private:
  struct Choice {
    DraftHealth health;
    std::vector<DraftToken> draft;  // that is being verified
    size_t drafter = 0;             // whose
  };

  void take_best(std::span<Speculated* const> choices, size_t drafter);
  void cut(std::span<Speculated* const> choices, const CostModel& cost);

  SpeculationOptions options_;
  std::vector<std::shared_ptr<Drafter>> drafters_;
  std::unordered_map<uint64_t, Choice> choices_;
  std::vector<DraftRequest> requests_;
  VerifyPlan plan_;
  SpeculationStats stats_;
};

}  // namespace dspark
