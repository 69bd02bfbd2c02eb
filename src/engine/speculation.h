// Speculation: who guesses what for whom, and how many of the guesses a step verifies. Drafters that cost nothing
// propose for everybody; one that costs time is asked where the plan says that it pays. For each choice the proposal
// that promises most counts, and all of them are cut by the cost model. Nothing here can change a token, only how fast
// it comes. Step thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
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
  int draft_rows() const { return draft_rows_; }    // that a drafter has computed for it
  double draft_ms() const { return draft_ms_; }     // and how long that took
  const Proposal* proposal(uint64_t id) const;      // null: the choice is not known

 private:
  struct Choice {
    DraftHealth health;
    std::optional<DraftWindow> window;
    Proposal proposal;
    size_t drafter = 0;     // whose proposal it is
    uint32_t given_up = 0;  // bit i: drafter i gave NaN for it and is not asked again
    int bucket = 0;
  };

  // Tokens that each choice may have from the drafter; 0: it is not asked.
  std::vector<int> most_of(std::span<Speculated* const> choices, size_t drafter);
  void plan_lengths(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost, size_t drafter,
                    std::vector<int>* lengths);
  void ask(std::span<Speculated* const> choices, size_t drafter, std::span<const int> lengths);
  void take(Speculated& choice, DraftRequest& request, size_t drafter);
  void give_up(Choice& choice, uint64_t id, size_t drafter);
  void cut(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost);
  bool may_warn();

  SpeculationOptions options_;
  std::vector<std::shared_ptr<Drafter>> drafters_;
  std::unordered_map<uint64_t, Choice> choices_;
  std::vector<DraftExperience> experience_;  // of each drafter; only of those that cost time
  std::vector<DraftRequest> requests_;
  CutProbe probe_;
  VerifyPlan plan_;
  int draft_rows_ = 0;
  double draft_ms_ = 0.0;
  SpeculationStats stats_;
  std::optional<std::chrono::steady_clock::time_point> warned_;
};

}  // namespace dspark
