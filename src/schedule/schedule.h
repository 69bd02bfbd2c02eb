// The schedule: what the next step computes, as a pure function of the state (plan law). No clock, no thread, no
// kernel; the engine runs it live, tests and simulators run it on tables. See docs/scheduling.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "schedule/cost_model.h"

namespace dspark {

enum class SchedulePolicy {
  kHitRate,       // the largest cached part first
  kLatencyAware,  // the longest wait first, measured in what requests of its pool usually take
  kHybrid,        // the fewest rows still to compute first: the cached part weighed with the prompt's length
};
Result<SchedulePolicy> schedule_policy_from_name(std::string_view name);  // "hit-rate", "latency-aware", "hybrid"
const char* schedule_policy_name(SchedulePolicy policy);

// Requests with short and with long prompts, each of which may be promised a share of the prompt rows of a step.
enum class Pool : uint8_t { kShort, kLong };
inline constexpr int kPools = 2;
inline constexpr int kLongestShortPrompt = 512;  // tokens

using PoolShares = std::array<double, kPools>;  // of the prompt rows; together at most 1
// "short:0.3,long:0.7"; one may be missing. Empty: no shares.
Result<PoolShares> pool_shares_from_text(std::string_view text);

struct ScheduleOptions {
  SchedulePolicy policy = SchedulePolicy::kHybrid;
  int max_running = 96;  // sequences at once
  int max_rows = 512;    // rows of prompts in one step, at most
  // Rows of a step in which somebody decodes, where prompts leave their share; 0: as many as the step may take by
  // inter_token_ms and the cost of rows.
  int step_budget = 0;
  double inter_token_ms = 30.0;  // what a decode should wait for its next token at most
  PoolShares pool_shares = {};
  int max_overtaken = 16;  // by how many later requests of its priority and pool a request may be overtaken
  int block_positions = 128;
};

// A sequence as the plan sees it: a prompt on its way, one choice of an answer, or either of them waiting.
struct PlanSequence {
  uint64_t id = 0;
  uint64_t arrival = 0;  // ordinal of the request: lower came first
  int priority = 0;      // higher goes first
  Pool pool = Pool::kShort;
  int tokens = 0;            // known so far: prompt and answer
  int ready = 0;             // running: positions whose KV is written. Waiting: of them, found in the prefix cache
  bool answered = false;     // its first token is out
  int decode_rows = 0;       // running, all but the last token ready: rows it wants at once, 1 + drafted. 0: a prompt
  int blocks = 0;            // running: that it holds
  int own_blocks = 0;        // running: that nobody else holds, so that they come free with it
  int shared_blocks = 0;     // waiting: of its cached blocks, those that running sequences hold in any case
  int branches = 1;          // sequences that it becomes once its prompt is computed
  int overtaken = 0;         // how often Plan::overtaken has named it
  double age_seconds = 0.0;  // waiting or computing its prompt, since it came
};

struct ScheduleState {
  std::span<const PlanSequence> running, waiting;
  int64_t free_blocks = 0;  // empty, or cached and held by nobody
  const CostModel* cost = nullptr;
  std::array<double, kPools> usual_seconds = {};  // P90 of the time to the first token, 0: not known yet
};

struct PlanPiece {
  uint64_t id;
  int rows;
  bool admitted = false;  // it was waiting
};

struct Plan {
  std::vector<uint64_t> preempted;  // of running: they give up their KV first and wait again
  std::vector<uint64_t> exhausted;  // they could not go on even alone
  std::vector<PlanPiece> decodes;   // all rows of each
  std::vector<PlanPiece> chunks;    // of prompts, in the order of the policy
  std::vector<uint64_t> overtaken;  // each time a later request goes before a waiting or computing one
  int decode_rows = 0;
  int prompt_rows = 0;
  int prompt_limit = 0;     // rows that prompts might have had
  int64_t free_blocks = 0;  // left
  // What the step should take and bring, to be held against what it did.
  double expected_ms = 0.0;
  int expected_tokens = 0;

  int rows() const { return decode_rows + prompt_rows; }
};

// The plan of one step.
//
// Every decode that has memory gets its rows. Where memory is short, the lowest priority and then the latest arrival is
// preempted. Prompts share what the budget leaves, by priority, then by policy; one that was admitted has been promised
// the blocks of its whole prompt.
//
// Bound: among requests of one priority and pool, at most max_overtaken that came later get their first token before a
// given one (docs/scheduling.md has the proof; between priorities there is none, as that is what a priority asks for).
Plan plan_step(const ScheduleState& state, const ScheduleOptions& options);

// One line for logs: "5 decodes (7 rows), chunks 12:64 +13:40, preempts 9; 111 rows of 120, 34 blocks free, ..."
std::string describe(const Plan& plan);

}  // namespace dspark
