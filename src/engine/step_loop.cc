// The step thread: taking in, planning, computing. What becomes of a step's output is in step_output.cc.
#include "engine/step_loop.h"

#include <pthread.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/stopwatch.h"

namespace dspark {
namespace {

constexpr size_t kRefreshed = 16;  // waiting branches whose cached part is looked up in a step
constexpr int kMostStalls = 8;     // plans of which nothing came, before the first in line is given up
constexpr std::chrono::milliseconds kIdleEnough{100};  // before the cache is compacted
constexpr int kRowsWithLogprobs = 32;  // of a prompt whose log-probabilities are wanted, in one step: logits are large

RequestLimits limits_of(Runner& runner, const StepLoopOptions& options) {
  return {.vocab = runner.config().vocab,
          .context = options.context,
          .max_choices = options.schedule.max_running,
          .kv_positions = runner.kv().capacity_blocks() * kTilePositions};
}

std::shared_ptr<Drafter> drafter_with_kv(const std::vector<std::shared_ptr<Drafter>>& drafters) {
  std::shared_ptr<Drafter> found;
  for (const auto& drafter : drafters) {
    if (drafter->hidden_layers().empty()) continue;
    DSPARK_CHECK(found == nullptr, "the drafters {} and {} both keep KV, and a block has room for one", found->name(),
                 drafter->name());
    found = drafter;
  }
  return found;
}

Error closing() { return make_error(ErrorCode::kUnavailable, "the engine is closing"); }

}  // namespace

StepLoop::StepLoop(Runner& runner, const Tokenizer& tokenizer, StepLoopOptions options)
    : runner_(runner),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      limits_(limits_of(runner, options_)),
      cost_(options_.cost),
      kv_drafter_(drafter_with_kv(options_.drafters)),
      speculation_(options_.speculation, options_.drafters),
      defrag_at_(Clock::now() + options_.defrag_every) {
  for (int i = 0; i < runner.pool().size(); ++i) scratch_.emplace_back(runner.ops());
  thread_ = std::thread([this] { main(); });
}

StepLoop::~StepLoop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

Result<RequestId> StepLoop::submit(Request request, std::shared_ptr<RequestListener> listener) {
  DSPARK_TRY(auto active, make_active(std::move(request), std::move(listener), limits_, runner_.ops(), tokenizer_,
                                      options_.end_tokens));
  Branch& first = *active->choices[0];
  first.prefix = runner_.kv().announce(active->request.tenant, active->request.cache_salt, first.tokens);
  const std::lock_guard lock(mutex_);
  if (stop_ || draining_) return make_error(ErrorCode::kUnavailable, "the engine takes no more requests");
  if (queued_ >= options_.max_queue) {
    return make_error(ErrorCode::kBusy, "{} requests wait already, at most {} may; try again later", queued_,
                      options_.max_queue);
  }
  active->id = next_id_;
  for (auto& branch : active->choices) branch->id = next_id_++;
  const RequestId id = active->id;
  arrived_.push_back(std::move(active));
  ++here_;
  ++queued_;
  wake_.notify_one();
  return id;
}

void StepLoop::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(id);
  wake_.notify_one();
}

void StepLoop::reconfigure(LiveLoopOptions options) {
  const std::lock_guard lock(mutex_);
  options_.max_queue = options.max_queue;
  wanted_ = options;
}

void StepLoop::replace_drafter(NewDrafter drafter) {
  const std::lock_guard lock(mutex_);
  new_drafter_ = std::move(drafter);
}

void StepLoop::drain() {
  const std::lock_guard lock(mutex_);
  draining_ = true;
  published_.draining = true;
}

bool StepLoop::wait_until_idle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [&] { return here_ == 0; });
}

LoopStats StepLoop::stats() const {
  const std::lock_guard lock(mutex_);
  LoopStats out = published_;
  out.requests_waiting = static_cast<int>(queued_);
  if (step_began_) out.step_seconds = seconds_between(*step_began_, Clock::now());
  out.step_foreseen_seconds = foreseen_ms_ * 1e-3;
  return out;
}

void StepLoop::main() {
  pthread_setname_np(pthread_self(), "dspark-step");
  mark_ = Clock::now();
  while (take_in()) {
    end_overdue();
    try {
      step();
    } catch (const std::exception& error) {
      abandon_step(error.what());
    } catch (...) {
      abandon_step("an unknown exception");
    }
    if (!sweep()) publish();
  }
  for (auto& [id, request] : requests_) end_request(*request, closing());
  sweep();
}

// Waits for something to do; false when the loop is to end.
bool StepLoop::take_in() {
  std::vector<std::unique_ptr<ActiveRequest>> arrived;
  std::vector<RequestId> cancelled;
  std::optional<LiveLoopOptions> wanted;
  std::optional<NewDrafter> drafter;
  {
    std::unique_lock lock(mutex_);
    if (requests_.empty() && arrived_.empty() && !stop_) {
      computed_.reset();
      step_began_.reset();
      idle(lock);
      mark_ = Clock::now();
    }
    step_began_ = Clock::now();
    arrived.swap(arrived_);
    cancelled.swap(cancelled_);
    wanted.swap(wanted_);
    drafter.swap(new_drafter_);
    if (stop_) {
      for (auto& request : arrived) requests_[request->id] = std::move(request);
      return false;
    }
  }
  take_options(wanted);
  take_drafter(std::move(drafter));
  for (auto& request : arrived) {
    for (auto& branch : request->choices) branches_[branch->id] = branch.get();
    enqueue(*request->choices[0]);
    const RequestId id = request->id;
    requests_[id] = std::move(request);
  }
  for (const RequestId id : cancelled) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) continue;
    for (auto& branch : found->second->choices) end_choice(*branch, FinishReason::kCancelled, {});
    end_request(*found->second, make_error(ErrorCode::kCancelled, "the request was cancelled"));
  }
  sweep();
  return true;
}

// Waits for requests. Once it has lasted a while and compaction is due, that is done a block at a time.
void StepLoop::idle(std::unique_lock<std::mutex>& lock) {
  const auto wanted = [&] { return stop_ || !arrived_.empty(); };
  if (options_.defrag_every.count() == 0) return wake_.wait(lock, wanted);
  Clock::time_point next = std::max(defrag_at_, Clock::now() + kIdleEnough);
  while (!wake_.wait_until(lock, next, wanted)) {
    lock.unlock();
    const bool more = compact();
    lock.lock();
    published_.defrag = stats_.defrag;
    next = more ? Clock::now() : defrag_at_;
  }
}

// One block; false when all is done.
bool StepLoop::compact() {
  KvCache& kv = runner_.kv();
  if (!std::exchange(compacting_, true)) stats_.defrag.before = kv.stats().fragmentation_ratio();
  if (kv.compact_step()) {
    ++stats_.defrag.moved;
    return true;
  }
  compacting_ = false;
  defrag_at_ = Clock::now() + options_.defrag_every;
  stats_.defrag.after = kv.stats().fragmentation_ratio();
  ++stats_.defrag.runs;
  log(LogLevel::kInfo, "KV cache compacted: fragmentation {:.3f} -> {:.3f}", stats_.defrag.before, stats_.defrag.after);
  return false;
}

void StepLoop::take_options(std::optional<LiveLoopOptions> options) {
  if (!options) return;
  options->schedule.max_running = options_.schedule.max_running;
  options->schedule.max_rows = options_.schedule.max_rows;
  options_.schedule = options->schedule;
  options_.speculation = options->speculation;
  speculation_.set_options(options->speculation);
}

void StepLoop::end_overdue() {
  for (auto& [id, request] : requests_) {
    if (!request->request.deadline || Clock::now() < *request->request.deadline) continue;
    end_request(*request, make_error(ErrorCode::kDeadline, "the time for this request is up, after {} answer tokens",
                                     request->stats.output_tokens));
  }
  sweep();
}

// plan -> run -> draw -> verify -> learn -> deliver
void StepLoop::step() {
  pieces_.clear();
  const Plan plan = make_plan();
  make_room(plan);
  const bool has_work = gather(plan);
  wake_listeners();  // who reads does so while this step computes
  if (!has_work) return;
  if (const Status status = compute(plan); !status.ok()) return abandon_step(status.error().message);
  draw();
  verify();
  learn_cost();
  if (options_.decisions) log_decisions();
  deliver();
  if (options_.check_accounting) check_accounting();
}

// A step that failed as a whole takes the requests with it that had a part in it; where not even a plan could be made,
// all of them.
void StepLoop::abandon_step(const std::string& why) {
  log(LogLevel::kError, "a step failed: {}", why);
  const Error error = make_error(ErrorCode::kInternal, "the step of this request failed: {}", why);
  for (const Piece& piece : pieces_) end_request(*piece.branch->request, error);
  if (!pieces_.empty()) return;
  for (auto& [id, request] : requests_) end_request(*request, error);
}

Plan StepLoop::make_plan() {
  refresh_cached();
  plan_running_.clear();
  plan_waiting_.clear();
  speculate();
  for (const Branch* branch : running_) plan_running_.push_back(seen(*branch));
  for (const Branch* branch : waiting_) plan_waiting_.push_back(seen(*branch));
  const ScheduleState state = {.running = plan_running_,
                               .waiting = plan_waiting_,
                               .free_blocks = runner_.kv().available_blocks(),
                               .cost = &cost_,
                               .usual_seconds = usual_seconds_};
  Plan plan = plan_step(state, options_.schedule);
  prompt_rows_ = plan.prompt_rows;
  stats_.prompt_limit = plan.prompt_limit;
  foreseen_ms_ = cost_.known() ? plan.expected_ms : 0.0;
  if (log_enabled(LogLevel::kDebug))
    log_line(LogLevel::kDebug, fmt::format("step {}: {}", stats_.steps, describe(plan)));
  return plan;
}

PlanSequence StepLoop::seen(const Branch& branch) const {
  const ActiveRequest& request = *branch.request;
  PlanSequence out;
  out.id = branch.id;
  out.arrival = request.id;
  out.priority = request.request.priority;
  out.pool = request.pool;
  out.tokens = static_cast<int>(branch.tokens.size());
  out.answered = request.answered;
  out.branches = request.answered ? 1 : static_cast<int>(request.choices.size());
  out.overtaken = branch.overtaken;
  out.age_seconds = request.answered ? 0.0 : seconds_between(request.submitted, mark_);
  if (branch.state == Branch::State::kWaiting) {
    out.ready = branch.cached;
    return out;
  }
  out.ready = branch.kv.length();
  out.decode_rows = branch.decodes() ? 1 + static_cast<int>(branch.drafted.size()) : 0;
  out.blocks = static_cast<int>(branch.kv.table().size());
  out.own_blocks = out.blocks;
  return out;
}

// What the cache has for those who wait changes while others run.
void StepLoop::refresh_cached() {
  for (size_t i = 0; i < std::min(kRefreshed, waiting_.size()); ++i) {
    refreshed_ = (refreshed_ + 1) % waiting_.size();
    Branch& branch = *waiting_[refreshed_];
    branch.cached = runner_.kv().cached(branch.prefix, open_options(branch));
  }
}

KvOpenOptions StepLoop::open_options(const Branch& branch) const {
  return {.max_cached = branch.request->max_cached(branch),
          .drafts = kv_drafter_ != nullptr && may_draft(*branch.request),
          .resumed = branch.opened};
}

void StepLoop::make_room(const Plan& plan) {
  for (const uint64_t id : plan.preempted) preempt(find(id));
  for (const uint64_t id : plan.exhausted) {
    end_request(*find(id).request,
                make_error(ErrorCode::kExhausted,
                           "the KV memory of {} blocks of {} positions is used up and there is nothing to preempt; "
                           "raise --kv-memory or ask for less",
                           runner_.kv().capacity_blocks(), kTilePositions));
  }
  for (const uint64_t id : plan.overtaken) ++find(id).overtaken;
  for (const PlanPiece& piece : plan.chunks) {
    // Not if another choice has ended its request just now.
    if (piece.admitted && find(piece.id).state == Branch::State::kWaiting) admit(find(piece.id));
  }
}

void StepLoop::enqueue(Branch& branch) {
  branch.state = Branch::State::kWaiting;
  branch.cached = runner_.kv().cached(branch.prefix, open_options(branch));
  waiting_.push_back(&branch);
}

void StepLoop::admit(Branch& branch) {
  ActiveRequest& request = *branch.request;
  branch.kv = runner_.kv().open(branch.prefix, open_options(branch));
  branch.draft_begin = branch.kv.draft_length() == branch.kv.length() ? 0 : next_block(branch.kv.length());
  branch.opened = true;
  branch.state = Branch::State::kRunning;
  std::erase(waiting_, &branch);
  running_.push_back(&branch);
  if (request.started != Clock::time_point()) return;
  request.started = Clock::now();
  request.stats.queue_seconds = seconds_between(request.submitted, request.started);
  request.stats.cached_tokens = branch.kv.length();
  stats_.prompt_tokens += request.stats.prompt_tokens;
  stats_.cached_tokens += request.stats.cached_tokens;
  const std::lock_guard lock(mutex_);
  --queued_;
}

// Its KV stays in the cache, where it will find what has not been evicted by then.
void StepLoop::preempt(Branch& branch) {
  settle_drafter();
  branch.kv.close(KvTail::kKeep);
  branch.drafted.clear();
  std::erase(running_, &branch);
  const Request& request = branch.request->request;
  branch.prefix = runner_.kv().announce(request.tenant, request.cache_salt, branch.tokens);
  enqueue(branch);
  ++branch.request->stats.preemptions;
  ++stats_.preemptions;
}

// The rows of the step, and what is wanted of them. False if there are none.
bool StepLoop::gather(const Plan& plan) {
  rows_.clear();
  pieces_.clear();
  jobs_.clear();
  logit_rows_ = 0;
  shape_ = {};
  for (const PlanPiece& piece : plan.decodes) add_piece(find(piece.id), piece.rows);
  for (const PlanPiece& piece : plan.chunks) add_piece(find(piece.id), piece.rows);
  if (!rows_.empty()) {
    stalled_ = 0;
    return true;
  }
  // The next plan sees the memory as it is now. It does not go on like that for ever.
  if (!running_.empty() && ++stalled_ > kMostStalls) {
    end_request(*running_[0]->request,
                make_error(ErrorCode::kExhausted, "no KV memory could be had; raise --kv-memory"));
  }
  return false;
}

void StepLoop::add_piece(Branch& branch, int rows) {
  if (branch.state != Branch::State::kRunning) return;  // its request has failed since
  ActiveRequest& request = *branch.request;
  const int first = branch.kv.length();
  const int pending = branch.pending();
  const bool decodes = branch.decodes();
  int count = decodes ? pending + static_cast<int>(branch.drafted.size()) : std::min(rows, pending);
  if (request.wants_prompt_logprobs() && !request.answered) count = std::min(count, kRowsWithLogprobs);
  if (!branch.kv.reserve(count).ok()) return;  // others took the memory that the plan counted on: it waits for the next
  Piece piece = {&branch, static_cast<int>(rows_.size()), std::min(count, pending), 0, jobs_.size(), 0};
  for (int i = 0; i < count; ++i) {
    const int position = first + i;
    const bool known = i < pending;
    RunRow row = {&branch.kv, known ? branch.tokens[static_cast<size_t>(position)]
                                    : branch.drafted[static_cast<size_t>(i - pending)]};
    const size_t jobs = jobs_.size();
    add_jobs(branch, position, i + 1 >= pending, known ? 0 : static_cast<size_t>(i - pending + 1));
    row.wants_logits = jobs_.size() > jobs;
    if (row.wants_logits) ++logit_rows_;
    row.wants_final = request.request.work == Work::kEmbed &&
                      (request.request.pooling == Pooling::kMean || position + 1 == request.prompt_length());
    rows_.push_back(row);
    shape_.context += position + 1;
  }
  piece.jobs = jobs_.size() - piece.first_job;
  pieces_.push_back(piece);
}

// What the logits at `position` are for: the next token of the prompt, or the draw of what follows all known tokens.
void StepLoop::add_jobs(Branch& branch, int position, bool last_known, size_t drafted) {
  ActiveRequest& request = *branch.request;
  const uint64_t next = static_cast<uint64_t>(position) + 1;
  if (request.wants_prompt_logprobs() && position + 1 < request.prompt_length() &&
      position >= static_cast<int>(request.prompt_logprobs.size())) {
    jobs_.push_back({.branch = &branch, .logits_row = logit_rows_, .position = next, .given = true});
  }
  if (!last_known || !request.generates()) return;
  if (request.answered) {
    jobs_.push_back({.branch = &branch, .logits_row = logit_rows_, .position = next, .drafted = drafted});
    return;
  }
  for (auto& choice : request.choices) {  // the first token of each, from the same logits
    jobs_.push_back({.branch = choice.get(), .logits_row = logit_rows_, .position = next});
  }
}

Status StepLoop::compute(const Plan& plan) {
  lap(&stats_.plan_seconds);
  if (computed_) {
    const double drafting = settled_seconds_ + speculation_.draft_ms() * 1e-3;
    stats_.gap_seconds += seconds_between(*computed_, mark_) - drawn_seconds_ - drafting;
  }
  const Clock::time_point start = mark_;
  DSPARK_TRY(output_, runner_.compute(rows_, hidden_layers()));
  lap(&stats_.forward_seconds);
  computed_ = mark_;
  drawn_seconds_ = settled_seconds_ = 0.0;
  forward_ms_ = seconds_between(start, mark_) * 1e3;
  ++stats_.steps;
  stats_.decode_rows += plan.decode_rows;
  stats_.prompt_rows += static_cast<int64_t>(rows_.size()) - plan.decode_rows;
  return Ok{};
}

void StepLoop::check_accounting() {
  std::vector<const SequenceKv*> open;
  for (const Branch* branch : running_) open.push_back(&branch->kv);
  const Status status = runner_.kv().check(open);
  DSPARK_CHECK(status.ok(), "{}", status.error().message);
}

// The time since the last lap.
void StepLoop::lap(double* seconds) {
  const Clock::time_point now = Clock::now();
  *seconds += seconds_between(mark_, now);
  mark_ = now;
}

// What each phase of this step took.
void StepLoop::count_phases() {
  if (stats_.steps == counted_steps_) return;
  const double draft = stats_.speculation.draft_seconds;
  const decltype(counted_seconds_) seconds = {stats_.plan_seconds - draft, draft, stats_.forward_seconds,
                                              stats_.draw_seconds, stats_.deliver_seconds};
  for (size_t i = 0; i < seconds.size(); ++i) stats_.phases[i].add(seconds[i] - counted_seconds_[i]);
  counted_seconds_ = seconds;
  counted_steps_ = stats_.steps;
}

void StepLoop::publish() {
  lap(&stats_.deliver_seconds);
  stats_.running = static_cast<int>(running_.size());
  stats_.most_running = std::max(stats_.most_running, stats_.running);
  stats_.waiting = static_cast<int>(waiting_.size());
  stats_.speculation = speculation_.stats();
  count_phases();
  const std::lock_guard lock(mutex_);
  stats_.draining = draining_;
  published_ = stats_;
}

}  // namespace dspark
