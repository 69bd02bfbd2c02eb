// What becomes of a step's output: draws on the workers, then texts, ends and listeners on the step thread. See
// step_loop.h.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>

#include "base/stopwatch.h"
#include "engine/step_loop.h"

namespace dspark {
namespace {

constexpr size_t kRecent = 256;  // first tokens whose times count as usual

double p90(std::vector<double> values) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(values.size() * 9 / 10);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

void StepLoop::draw() {
  std::atomic<size_t> next = 0;
  const int workers = static_cast<int>(std::min(jobs_.size(), scratch_.size()));
  runner_.pool().run(workers, [&](int worker) {
    for (size_t i = next++; i < jobs_.size(); i = next++) run_job(jobs_[i], scratch_[static_cast<size_t>(worker)]);
  });
  const double before = stats_.draw_seconds;
  lap(&stats_.draw_seconds);
  drawn_seconds_ = stats_.draw_seconds - before;
}

// On a worker. Whatever goes wrong is this request's alone.
void StepLoop::run_job(Job& job, DrawScratch& scratch) {
  try {
    const size_t vocab = static_cast<size_t>(limits_.vocab);
    DrawRow row = {output_.logits + static_cast<size_t>(job.logits_row) * vocab, job.position,
                   std::span(job.branch->drafted).first(job.drafted)};
    std::vector<float> disturbed;
    if (options_.disturb) {
      disturbed.assign(row.logits, row.logits + vocab);
      options_.disturb(job.branch->request->id, job.branch->choice, disturbed);
      row.logits = disturbed.data();
    }
    const Sampler& sampler = job.branch->sampler;
    const Result<Draw> drawn = job.given ? sampler.score(row, job.branch->tokens[job.position],
                                                         job.branch->request->request.prompt_logprobs, scratch)
                                         : sampler.draw(row, job.branch->history, scratch);
    if (!drawn.ok()) {
      job.failure = drawn.error();
      return;
    }
    job.drawn = {drawn->token, drawn->logprob, {}};
    for (const TokenLogprob& entry : drawn->top) job.drawn.top.push_back({entry.token, entry.logprob});
  } catch (const std::exception& error) {
    job.failure = make_error(ErrorCode::kInternal, "the draw of token {} failed: {}", job.position, error.what());
  } catch (...) {
    job.failure = make_error(ErrorCode::kInternal, "the draw of token {} failed", job.position);
  }
}

void StepLoop::deliver() {
  for (const Piece& piece : pieces_) {
    ActiveRequest& request = *piece.branch->request;
    if (request.ended) continue;
    try {
      deliver_piece(piece);
    } catch (const std::exception& error) {
      end_request(request, make_error(ErrorCode::kInternal, "delivering the answer failed: {}", error.what()));
    }
  }
  for (const Piece& piece : pieces_) told_.push_back(piece.branch->request->id);
}

void StepLoop::wake_listeners() {
  for (const RequestId id : told_) {
    const auto found = requests_.find(id);
    if (found != requests_.end() && !found->second->ended) found->second->listener->on_step_end();
  }
  told_.clear();
}

void StepLoop::deliver_piece(const Piece& piece) {
  Branch& branch = *piece.branch;
  ActiveRequest& request = *branch.request;
  const int position = branch.kv.length();
  branch.kv.commit(std::span(branch.tokens).subspan(static_cast<size_t>(position), static_cast<size_t>(piece.known)),
                   kv_drafter_ != nullptr);
  Status status = request.request.work == Work::kEmbed ? pool_states(piece, position) : take_prompt_logprobs(piece);
  if (!status.ok()) return end_request(request, status);
  if (branch.pending() > 0) return;  // more of the prompt is to come
  if (request.answered) return accept(piece);
  request.answered = true;
  request.first_token = mark_;
  request.stats.prefill_seconds = std::chrono::duration<double>(request.first_token - request.started).count();
  auto& recent = first_token_seconds_[static_cast<size_t>(request.pool)];
  recent.push_back(seconds_since(request.submitted));
  if (recent.size() > kRecent) recent.pop_front();
  usual_seconds_[static_cast<size_t>(request.pool)] = p90({recent.begin(), recent.end()});
  request.listener->on_prompt(request.stats, request.prompt_logprobs);
  if (request.request.work == Work::kEmbed) return finish_embedding(request);
  begin_answer(piece);
}

Status StepLoop::take_prompt_logprobs(const Piece& piece) {
  for (Job& job : std::span(jobs_).subspan(piece.first_job, piece.jobs)) {
    if (!job.given) continue;
    if (job.failure) return *job.failure;
    piece.branch->request->prompt_logprobs.push_back({job.drawn.logprob, std::move(job.drawn.top)});
  }
  return Ok{};
}

// Adds the final states of a piece that began at `position`; a sum in the order of the positions, however the prompt
// was cut.
Status StepLoop::pool_states(const Piece& piece, int position) {
  ActiveRequest& request = *piece.branch->request;
  const size_t hidden = static_cast<size_t>(runner_.config().hidden);
  request.pooled.resize(hidden);
  for (int i = 0; i < piece.known; ++i) {
    const size_t row = static_cast<size_t>(piece.first_row) + static_cast<size_t>(i);
    if (!rows_[row].wants_final || position + i < request.pooled_rows) continue;
    const float* state = output_.final + row * hidden;
    for (size_t d = 0; d < hidden; ++d) {
      if (!std::isfinite(state[d])) {
        return make_error(ErrorCode::kCorrupt, "the final state at position {} holds {}, expected finite numbers",
                          position + i, state[d]);
      }
      request.pooled[d] += static_cast<double>(state[d]);
    }
    ++request.pooled_rows;
  }
  return Ok{};
}

void StepLoop::finish_embedding(ActiveRequest& request) {
  std::vector<float> embedding;
  for (const double sum : request.pooled) embedding.push_back(static_cast<float>(sum / request.pooled_rows));
  request.listener->on_embedding(embedding);
  end_request(request, Ok{});
}

void StepLoop::begin_answer(const Piece& piece) {
  ActiveRequest& request = *piece.branch->request;
  if (!request.generates()) {
    settle_drafter();
    const Status pinned = request.request.pin ? piece.branch->kv.close_pinned() : Ok{};
    for (auto& choice : request.choices) end_choice(*choice, FinishReason::kLength, {});
    return end_request(request, pinned);
  }
  fork_choices(request);
  for (Job& job : std::span(jobs_).subspan(piece.first_job, piece.jobs)) {
    if (job.given) continue;
    if (job.failure) return end_request(request, *job.failure);
    take_token(*job.branch, job.drawn, false);
    if (request.ended) return;
  }
  // Those that there was no memory for wait for their turn.
  for (auto& choice : request.choices) {
    if (choice->state != Branch::State::kUnborn) continue;
    choice->prefix = runner_.kv().announce(request.request.tenant, request.request.cache_salt, choice->tokens);
    choice->opened = true;
    enqueue(*choice);
  }
}

void StepLoop::fork_choices(ActiveRequest& request) {
  if (request.choices.size() > 1) settle_drafter();
  for (size_t i = 1; i < request.choices.size(); ++i) {
    Branch& branch = *request.choices[i];
    Result<SequenceKv> fork = request.choices[0]->kv.fork();
    if (!fork.ok()) continue;
    branch.kv = std::move(*fork);
    branch.draft_begin = request.choices[0]->draft_begin;
    branch.opened = true;
    branch.state = Branch::State::kRunning;
    running_.push_back(&branch);
  }
}

// The draws of a choice's rows. Each draw is the target's own token if all drafted ones before it were; the first that
// differs from the draft is the last that counts.
void StepLoop::accept(const Piece& piece) {
  Branch& branch = *piece.branch;
  ActiveRequest& request = *branch.request;
  const std::vector<int32_t> drafted = std::exchange(branch.drafted, {});
  request.stats.drafted += static_cast<int64_t>(drafted.size());
  stats_.drafted += static_cast<int64_t>(drafted.size());
  request.stats.accepted += piece.accepted;
  stats_.accepted += piece.accepted;
  speculation_.verified(branch.id, piece.accepted);
  for (size_t i = 0; i < piece.jobs; ++i) {
    const Job& job = jobs_[piece.first_job + i];
    if (job.failure) return end_request(request, *job.failure);
    const bool matches = static_cast<int>(i) < piece.accepted;
    if (!take_token(branch, job.drawn, matches) || !matches) return;
    branch.kv.commit({&drafted[i], 1}, kv_drafter_ != nullptr);
  }
}

// Appends a token to its choice and tells the listener, or ends the choice. Whether the choice goes on.
bool StepLoop::take_token(Branch& branch, const DrawnToken& drawn, bool drafted) {
  ActiveRequest& request = *branch.request;
  if (branch.sampler.ends(drawn.token)) {
    end_choice(branch, FinishReason::kStop, drawn.token);
    if (request.open_choices == 0) end_request(request, Ok{});
    return false;
  }
  branch.tokens.push_back(drawn.token);
  branch.history.append(drawn.token);
  ++branch.output;
  ++request.stats.output_tokens;
  ++stats_.output_tokens;
  request.stats.decode_seconds = std::chrono::duration<double>(mark_ - request.first_token).count();
  // The text of the first min_tokens tokens does not end an answer, whatever stands in it.
  const bool may_stop = branch.output > branch.sampler.params().min_tokens;
  const std::string piece = branch.decoder.push(drawn.token);
  const std::string text = may_stop ? branch.matcher.push(piece) : piece;
  const TokenEvent event = {branch.choice, drawn.token, text, drawn.logprob, drawn.top, drafted};
  if (!request.listener->on_token(event)) {
    for (auto& choice : request.choices) end_choice(*choice, FinishReason::kCancelled, {});
    end_request(request, make_error(ErrorCode::kCancelled, "the request was cancelled by its listener"));
    return false;
  }
  if (branch.matcher.stopped()) {
    end_choice(branch, FinishReason::kStop, {});
  } else if (branch.output >= request.request.max_tokens ||
             static_cast<int>(branch.tokens.size()) >= options_.context) {
    end_choice(branch, FinishReason::kLength, {});
  } else {
    return true;
  }
  if (request.open_choices == 0) end_request(request, Ok{});
  return false;
}

void StepLoop::end_choice(Branch& branch, FinishReason reason, std::optional<int32_t> end_token) {
  if (branch.state == Branch::State::kEnded) return;
  std::erase(branch.state == Branch::State::kWaiting ? waiting_ : running_, &branch);
  branch.state = Branch::State::kEnded;
  speculation_.release(branch.id);
  settle_drafter();
  branch.kv.close(KvTail::kKeep);
  --branch.request->open_choices;
  std::string text;
  if (!branch.matcher.stopped()) {
    text = branch.matcher.push(branch.decoder.flush());
    text += branch.matcher.flush();
  }
  const auto& stops = branch.request->request.sampling.stop_token_ids;
  const bool asked_for = end_token && std::find(stops.begin(), stops.end(), *end_token) != stops.end();
  branch.request->listener->on_choice_end({.choice = branch.choice,
                                           .reason = reason,
                                           .text = text,
                                           .stop_text = branch.matcher.stop(),
                                           .stop_token = asked_for ? end_token : std::nullopt,
                                           .end_token = end_token,
                                           .seed = branch.sampler.params().seed});
}

// The last word to its listener. Whatever of it is still here goes.
void StepLoop::end_request(ActiveRequest& request, const Status& status) {
  if (request.ended) return;
  request.ended = true;
  settle_drafter();
  for (auto& branch : request.choices) {
    if (branch->state == Branch::State::kWaiting) std::erase(waiting_, branch.get());
    if (branch->state == Branch::State::kRunning) std::erase(running_, branch.get());
    branch->state = Branch::State::kEnded;
    speculation_.release(branch->id);
    branch->kv.close(KvTail::kDrop);
  }
  ++stats_.requests;
  ended_.push_back(request.id);
  request.listener->on_end(status, request.stats);
}

// Forgets the requests that have ended. Whether there were any: then the statistics are published.
bool StepLoop::sweep() {
  if (ended_.empty()) return false;
  int64_t never_begun = 0;
  std::vector<std::unique_ptr<ActiveRequest>> gone;
  for (const RequestId id : std::exchange(ended_, {})) {
    const auto found = requests_.find(id);
    never_begun += found->second->started == Clock::time_point();
    for (auto& branch : found->second->choices) branches_.erase(branch->id);
    gone.push_back(std::move(found->second));
    requests_.erase(found);
  }
  const int64_t count = static_cast<int64_t>(gone.size());
  gone.clear();
  publish();  // whoever waits until nobody is here sees what became of all
  const std::lock_guard lock(mutex_);
  queued_ -= never_begun;
  here_ -= count;
  if (here_ == 0) idle_.notify_all();
  return true;
}

}  // namespace dspark
