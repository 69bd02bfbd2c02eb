// Speculation: who guesses what for whom, and how many of the guesses a step verifies. Drafters that cost nothing
// propose for everybody; one that costs time is asked where the plan says that it pays. For each choice the proposal
// that promises most counts, and all of them are cut by the cost model. Nothing here can change a token, only how fast
// it comes. Step thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "draft/draft_window.h"
#include "draft/drafter.h"
#include "engine/speculation_stats.h"
#include "schedule/cost_model.h"
#include "schedule/cut_probe.h"
#include "schedule/draft_experience.h"
#include "schedule/draft_health.h"
#include "schedule/draft_plan.h"
#include "schedule/verify_plan.h"

namespace dspark {

inline constexpr int kMostDrafted = 16;  // tokens of one draft

struct SpeculationOptions {
  bool enabled = true;
  int fixed = -1;                  // verify so many tokens of each draft, without a plan; -1: planned
  int most_tokens = kMostDrafted;  // of one draft, at most
  double floor = 0.0;              // tokens less likely than this to survive are not verified
  bool pauses = true;              // a choice whose drafts keep failing stops drafting for a while
  WindowOptions window = {};       // how many positions a drafter may look back
};

// A choice that decodes in this step.
struct Speculated {
  uint64_t id = 0;
  std::span<const int32_t> tokens;        // prompt and output; the last one has not been computed
  std::span<uint8_t* const> blocks = {};  // of the KV of all positions before it
  int context_begin = 0;                  // from here on, the drafter's KV has been written
  int room = 0;                           // tokens that may be drafted, at most
  DraftSampler* sampler = nullptr;
  int bucket = 0;  // kind of task

  std::vector<DraftToken> draft = {};  // the answer: what to verify
};

// What was proposed for a choice in the newest step.
struct Proposal {
  std::string_view drafter = "none";
  std::vector<DraftToken> tokens = {};
  int verified = 0;  // of them, in this step
};

class Speculation {
 public:
  // In the order of preference: of equally good proposals the first drafter's counts.
  Speculation(SpeculationOptions options, std::vector<std::shared_ptr<Drafter>> drafters);

  // From the next step on; windows that move begin anew.
  void set_options(const SpeculationOptions& options);

  // A drafter in the place of another; what was learnt of that one's drafts is forgotten. Between steps.
  // Returns its number among those that cost time, or -1.
  int replace(const std::shared_ptr<Drafter>& drafter, std::shared_ptr<Drafter> by);

  // Fills the draft of each choice: as much of the best proposal as is worth verifying. `base`: what else the step
  // computes.
  void propose(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost);

  // What became of a choice's draft: so many of its tokens were accepted. Also for choices without one.
  void verified(uint64_t id, int accepted);

  // Several steps in a row took so many times what the cost model foresaw. It corrects itself; this tells people.
  void cost_was_off(double factor);

  // The choice has ended.
  void release(uint64_t id);

  const SpeculationStats& stats() const { return stats_; }
  const VerifyPlan& plan() const { return plan_; }  // of the newest step
  // Positions that drafters have computed for it, and how long each took, by their numbers among those that cost time;
  // and how long all of them took.
  const DraftRows& draft_rows() const { return draft_rows_; }
  const std::array<double, kCostlyDrafters>& draft_ms_each() const { return draft_ms_; }
  double draft_ms() const { return std::accumulate(draft_ms_.begin(), draft_ms_.end(), 0.0); }
  const Proposal* proposal(uint64_t id) const;  // null: the choice is not known

 private:
  struct Choice {
    DraftHealth health;
    std::optional<DraftWindow> window;
    Proposal proposal;
    size_t drafter = 0;     // whose proposal it is
    uint32_t given_up = 0;  // bit i: drafter i gave NaN for it and is not asked again
    int bucket = 0;
  };

  void set_most(std::span<Speculated* const> choices, size_t drafter);
  void plan_lengths(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost, size_t drafter);
  void ask(std::span<Speculated* const> choices, size_t drafter);
  StepBase with_drafts(const StepBase& base) const;
  void keep_survival(std::span<Speculated* const> choices);
  void take(Speculated& choice, DraftRequest& request, size_t drafter);
  void give_up(Choice& choice, uint64_t id, size_t drafter);
  void cut(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost);
  void watch_health(Choice& choice, uint64_t id, int verified, int accepted);
  bool may_warn();

  SpeculationOptions options_;
  std::vector<std::shared_ptr<Drafter>> drafters_;
  std::unordered_map<uint64_t, Choice> choices_;
  std::vector<DraftExperience> experience_;  // of each drafter; only of those that cost time
  std::vector<int> costly_;                  // of each drafter: its number among those that cost time, or -1
  CutProbe probe_;
  VerifyPlan plan_;
  DraftRows draft_rows_ = {};
  std::array<double, kCostlyDrafters> draft_ms_ = {};
  SpeculationStats stats_;
  std::optional<std::chrono::steady_clock::time_point> warned_;

  // For one step; kept because their memory is.
  std::vector<int> lengths_;  // [choices]: tokens that the drafter may draft; 0: it is not asked
  std::vector<int> most_;     // [choices]: before they were planned
  std::vector<DraftRequest> requests_;
  std::vector<DraftRequest*> asked_;
  std::vector<Speculated*> asking_;
  double least_survival_ = 0.0;            // that a drafted token should have
  std::vector<float> survival_;            // of the proposals of all choices, one behind the other
  std::vector<size_t> survival_ends_;      // [choices]
  std::vector<float> learnt_, situation_;  // of one draft, and of what was at hand
  std::vector<std::span<const float>> recent_;
  std::vector<size_t> recent_ends_;  // [choices]
  std::vector<int> situations_, present_, drafted_;
  std::vector<DraftProspect> prospects_;
  std::vector<DraftedSequence> sequences_;
};

}  // namespace dspark
