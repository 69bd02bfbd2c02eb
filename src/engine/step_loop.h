// StepLoop: continuous batching. One thread takes requests in, plans a step, computes it, draws its tokens and delivers
// them, for all requests at once; every way into the engine goes through here. See docs/architecture.md, "The life of a
// request".
//
// Threads: submit, cancel, reconfigure, drain, wait_until_idle and stats from any; everything else belongs to the step
// thread, which lends the draws to the runner's workers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/active_request.h"
#include "engine/decision_log.h"
#include "engine/draft_sampler.h"
#include "engine/drafter_choice.h"
#include "engine/loop_stats.h"
#include "engine/request.h"
#include "engine/runner.h"
#include "engine/speculation.h"
#include "schedule/schedule.h"

namespace dspark {

struct StepLoopOptions {
  ScheduleOptions schedule;
  int context = 0;                       // positions a sequence may have
  int max_queue = 1024;                  // requests that may wait
  std::vector<int32_t> end_tokens = {};  // the model's own
  // The KV cache is compacted so often, while nobody asks anything; 0: never.
  std::chrono::milliseconds defrag_every{0};
  SpeculationOptions speculation = {};
  std::vector<std::shared_ptr<Drafter>> drafters = {};  // in the order of preference
  CostModel cost = {};                                  // what is known of it before the first step
  std::shared_ptr<DecisionLog> decisions = {};          // null: they are not logged

  // Walks the whole KV cache after every step, and stops the program at the first thing wrong. For tests and debug
  // builds.
  bool check_accounting = false;
  // Sees a row's logits before they are used, and may break them or throw. On the workers. For tests of faults.
  std::function<void(RequestId, int choice, std::span<float> logits)> disturb = {};
};

// What of the options a running loop can change. max_running and max_rows stay as they were at the start.
struct LiveLoopOptions {
  ScheduleOptions schedule;
  int max_queue = 1024;
  SpeculationOptions speculation;
};

class StepLoop final : public Serving {
 public:
  // Runner and tokenizer must outlive it, and nobody else uses the runner while requests are here.
  StepLoop(Runner& runner, const Tokenizer& tokenizer, StepLoopOptions options);
  // Requests that are still here end with kUnavailable.
  ~StepLoop() override;

  Result<RequestId> submit(Request request, std::shared_ptr<RequestListener> listener) override;
  void cancel(RequestId id) override;

  // From the next step on, for what is here and what comes; no token changes. Any thread.
  void reconfigure(LiveLoopOptions options);

  // From the next step on this drafter stands in the place of the one that keeps KV, of which there must be one and
  // whose layers' layout it has. What that one has written is used no more; no token changes. Any thread.
  void replace_drafter(NewDrafter drafter);

  // From now on submit() refuses; what is here goes on.
  void drain();
  // Waits until no request is here, at most `timeout`; whether that came true.
  bool wait_until_idle(std::chrono::milliseconds timeout);

  LoopStats stats() const;
  // As of now. Only while no request is here, and nobody reconfigures.
  const StepLoopOptions& options() const { return options_; }
  // What steps take, as far as it has been learnt. Only while no request is here.
  const CostModel& cost() const { return cost_; }

 private:
  using Clock = std::chrono::steady_clock;

  // A branch's rows of this step.
  struct Piece {
    Branch* branch;
    int first_row;  // index into rows_
    int known;      // rows whose tokens stand already; those behind them are drafted
    int accepted;   // of the drafted ones, those that the target drew as well
    size_t first_job, jobs;
  };
  // A draw, or the log-probability of a token of the prompt.
  struct Job {
    Branch* branch;
    int logits_row;
    uint64_t position;   // of the token
    bool given = false;  // it stands there already: its log-probability is wanted
    size_t drafted = 0;  // drafted tokens before it
    std::optional<Error> failure = {};
    DrawnToken drawn = {};
  };

  void main();
  bool take_in();
  void idle(std::unique_lock<std::mutex>& lock);
  bool compact();
  void take_options(std::optional<LiveLoopOptions> options);
  void take_drafter(std::optional<NewDrafter> next);
  void end_overdue();
  void step();
  void abandon_step(const std::string& why);

  Plan make_plan();
  PlanSequence seen(const Branch& branch) const;
  void speculate();
  StepBase others() const;
  bool may_draft(const ActiveRequest& request) const;
  KvOpenOptions open_options(const Branch& branch) const;
  void refresh_cached();
  void make_room(const Plan& plan);
  void admit(Branch& branch);
  void preempt(Branch& branch);
  void enqueue(Branch& branch);
  bool gather(const Plan& plan);
  void add_piece(Branch& branch, int rows);
  void add_jobs(Branch& branch, int position, bool last_known, size_t drafted);
  Status compute(const Plan& plan);

  void draw();
  void run_job(Job& job, DrawScratch& scratch);
  void verify();
  int count_accepted(const Piece& piece) const;
  void tell_drafter();
  void settle_drafter();
  void learn_cost();
  void log_decisions();
  void deliver();
  void deliver_piece(const Piece& piece);
  void wake_listeners();
  Status take_prompt_logprobs(const Piece& piece);
  Status pool_states(const Piece& piece, int position);
  void finish_embedding(ActiveRequest& request);
  void begin_answer(const Piece& piece);
  void fork_choices(ActiveRequest& request);
  void accept(const Piece& piece);
  bool take_token(Branch& branch, const DrawnToken& drawn, bool drafted);
  void end_choice(Branch& branch, FinishReason reason, std::optional<int32_t> end_token);
  void end_request(ActiveRequest& request, const Status& status);
  bool sweep();
  void check_accounting();

  std::span<const int> hidden_layers() const;
  Branch& find(uint64_t id) { return *branches_.at(id); }
  void lap(double* seconds);
  void count_phases();
  void publish();

  Runner& runner_;
  const Tokenizer& tokenizer_;
  // Schedule, speculation and drafters are the step thread's, max_queue is under mutex_, the rest stays.
  StepLoopOptions options_;
  const RequestLimits limits_;

  // Between the callers and the step thread.
  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::vector<std::unique_ptr<ActiveRequest>> arrived_;
  std::vector<RequestId> cancelled_;
  std::optional<LiveLoopOptions> wanted_;  // options to go on with
  std::optional<NewDrafter> new_drafter_;  // to go on with
  uint64_t next_id_ = 1;
  int64_t here_ = 0;    // requests submitted and not ended
  int64_t queued_ = 0;  // of those, that have not begun
  bool draining_ = false;
  bool stop_ = false;
  std::optional<Clock::time_point> step_began_;  // nothing: the loop is idle
  LoopStats published_;
  std::atomic<double> foreseen_ms_ = 0.0;  // of the step that runs; 0: not known

  // The step thread's.
  std::unordered_map<RequestId, std::unique_ptr<ActiveRequest>> requests_;
  std::unordered_map<uint64_t, Branch*> branches_;  // by their id in plans
  std::vector<Branch*> running_, waiting_;
  std::vector<RequestId> ended_;
  size_t refreshed_ = 0;  // of waiting_, whose cached part was looked up last
  int stalled_ = 0;       // plans in a row of which nothing came
  CostModel cost_;
  std::shared_ptr<Drafter> kv_drafter_;  // the one of options_.drafters that keeps KV; null: none does
  Speculation speculation_;
  StepShape shape_;                                             // of the step
  double forward_ms_ = 0.0;                                     // that it took, the drafter's features included
  double expected_ms_ = 0.0, actual_ms_ = 0.0;                  // of the step, drafting and draws included
  int prompt_rows_ = 0;                                         // of the newest plan
  std::array<std::deque<double>, kPools> first_token_seconds_;  // of recent requests
  std::array<double, kPools> usual_seconds_ = {};               // their P90
  std::vector<PlanSequence> plan_running_, plan_waiting_;
  std::vector<Branch*> guessing_;  // whose next tokens are guessed in this step
  std::vector<Speculated> guesses_;
  std::vector<Speculated*> guess_pointers_;
  std::vector<RequestDraftSampler> draft_samplers_;
  std::vector<RunRow> rows_;
  std::vector<Piece> pieces_;
  std::vector<RequestId> told_;  // that the last step brought something for
  std::vector<Job> jobs_;
  std::vector<ComputedRow> computed_rows_;  // whose tokens are final
  int logit_rows_ = 0;
  StepOutput output_ = {};
  std::vector<DrawScratch> scratch_;  // one a worker
  Clock::time_point defrag_at_;       // the next compaction, or since when one has been due
  bool compacting_ = false;
  LoopStats stats_;
  int64_t counted_steps_ = 0;  // whose phases have been counted, and the seconds of all of them
  std::array<double, kStepPhaseNames.size()> counted_seconds_ = {};
  Clock::time_point mark_ = {};
  std::optional<Clock::time_point> computed_;  // the end of the last forward pass, unless the loop was idle since
  double drawn_seconds_ = 0.0;                 // since then
  double settled_seconds_ = 0.0;               // of it, in which the drafter took in what the step computed

  std::thread thread_;
};

}  // namespace dspark
