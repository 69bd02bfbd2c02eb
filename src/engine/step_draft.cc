// What the step loop does with guesses: has them made before a step, and finds out after it which were right. See
// step_loop.h. The step thread.
#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/stopwatch.h"
#include "engine/step_loop.h"

namespace dspark {
namespace {

constexpr int kStepsOff = 5;  // in a row that took twice, or half, of what was foreseen: somebody should know

}  // namespace

std::span<const int> StepLoop::hidden_layers() const {
  return kv_drafter_ == nullptr ? std::span<const int>() : kv_drafter_->hidden_layers();
}

bool StepLoop::may_draft(const ActiveRequest& request) const {
  return options_.speculation.enabled && request.generates() && request.request.draft_tokens != 0;
}

// Guesses for those that decode, no further than their answers may go.
void StepLoop::speculate() {
  guessing_.clear();
  draft_samplers_.clear();
  draft_samplers_.reserve(running_.size());
  guesses_.resize(std::max(guesses_.size(), running_.size()));
  guess_pointers_.clear();
  for (Branch* branch : running_) {
    if (!branch->decodes()) continue;
    const Request& request = branch->request->request;
    const int tokens = static_cast<int>(branch->tokens.size());
    int room = std::min(request.max_tokens - branch->output, options_.context - tokens) - 1;
    if (request.draft_tokens >= 0) room = std::min(room, request.draft_tokens);
    draft_samplers_.emplace_back(runner_.ops(), branch->sampler, branch->history);
    Speculated& guess = guesses_[guessing_.size()];
    std::vector<DraftToken> memory = std::move(guess.draft);
    guess = {.id = branch->id,
             .tokens = branch->tokens,
             .blocks = branch->kv.table(),
             .context_begin = std::min(branch->draft_begin, branch->kv.length()),
             .room = room,
             .sampler = &draft_samplers_.back(),
             .bucket = branch->request->bucket,
             .draft = std::move(memory)};
    guessing_.push_back(branch);
    guess_pointers_.push_back(&guess);
  }
  speculation_.propose(guess_pointers_, others(), cost_);
  for (size_t i = 0; i < guessing_.size(); ++i) {
    guessing_[i]->drafted.clear();
    for (const DraftToken& token : guesses_[i].draft) guessing_[i]->drafted.push_back(token.token);
  }
}

// What the step will compute besides: as many rows of prompts as the last one, where there are prompts.
StepBase StepLoop::others() const {
  const auto starting = std::ranges::count_if(running_, [](const Branch* branch) { return !branch->decodes(); });
  const auto room = options_.schedule.max_running - std::ssize(running_);
  const auto joining = starting + std::clamp<ptrdiff_t>(std::ssize(waiting_), 0, std::max<ptrdiff_t>(0, room));
  return {.prompt_rows = starting > 0 || !waiting_.empty() ? prompt_rows_ : 0, .joining = static_cast<int>(joining)};
}

// A drafted token is right if the target has drawn it, and all before it.
void StepLoop::verify() {
  for (Piece& piece : pieces_) piece.accepted = count_accepted(piece);
  if (kv_drafter_ != nullptr) tell_drafter();
}

int StepLoop::count_accepted(const Piece& piece) const {
  const std::vector<int32_t>& drafted = piece.branch->drafted;
  size_t accepted = 0;
  while (accepted < drafted.size()) {
    const Job& job = jobs_[piece.first_job + accepted];
    if (job.failure || job.drawn.token != drafted[accepted]) break;
    ++accepted;
  }
  return static_cast<int>(accepted);
}

// The drafter's KV of all rows whose tokens are final, those of requests without drafts as well: others may take their
// blocks over.
void StepLoop::tell_drafter() {
  computed_rows_.clear();
  bool fills_block = false;  // which others may share from then on
  for (const Piece& piece : pieces_) {
    const SequenceKv& kv = piece.branch->kv;
    const int end = kv.length() + piece.known + piece.accepted;
    fills_block |= end / kTilePositions > kv.length() / kTilePositions;
    for (int i = 0; i < piece.known + piece.accepted; ++i) {
      const int position = kv.length() + i;
      computed_rows_.push_back(
          {kv.table()[static_cast<size_t>(position / kTilePositions)], position, piece.first_row + i});
    }
  }
  const Clock::time_point start = Clock::now();
  kv_drafter_->computed(computed_rows_, output_.hidden, static_cast<int>(rows_.size()));
  if (fills_block) kv_drafter_->settle();
  settled_seconds_ = seconds_since(start);
  forward_ms_ += settled_seconds_ * 1e3;
}

// Another drafter from now on. What the one before it has written is nobody's any more: those who run are drafted for
// without it, and those who wait count on less of the cache.
void StepLoop::take_drafter(std::optional<NewDrafter> next) {
  if (!next) return;
  DSPARK_CHECK(kv_drafter_ != nullptr && same_layouts(next->drafter->kv_layouts(), kv_drafter_->kv_layouts()),
               "the drafter {} cannot take the place of one with another KV", next->drafter->name());
  settle_drafter();
  std::vector<SequenceKv*> open;
  for (Branch* branch : running_) {
    open.push_back(&branch->kv);
    branch->draft_begin = next_block(branch->kv.length());
  }
  runner_.kv().set_drafter(next->digest, open);
  if (const int costly = speculation_.replace(kv_drafter_, next->drafter); costly >= 0) cost_.doubt_draft(costly);
  std::ranges::replace(options_.drafters, kv_drafter_, next->drafter);
  kv_drafter_ = std::move(next->drafter);
  for (Branch* branch : waiting_) branch->cached = runner_.kv().cached(branch->prefix, open_options(*branch));
  log(LogLevel::kInfo, "another drafter from step {} on: {}", stats_.steps, to_hex(next->digest).substr(0, 16));
}

// Before blocks change hands.
void StepLoop::settle_drafter() {
  if (kv_drafter_ != nullptr) kv_drafter_->settle();
}

// The cost model hears what the step took, and its parts that were timed apart.
void StepLoop::learn_cost() {
  shape_.rows = static_cast<int>(rows_.size());
  const StepShape forward = shape_;
  shape_.draft_rows = speculation_.draft_rows();
  shape_.draws = static_cast<int>(jobs_.size());
  expected_ms_ = cost_.known() ? cost_.ms(shape_) : 0.0;
  actual_ms_ = speculation_.draft_ms() + forward_ms_ + drawn_seconds_ * 1e3;
  if (cost_.known()) {
    stats_.expected_seconds += expected_ms_ * 1e-3;
    stats_.actual_seconds += actual_ms_ * 1e-3;
  }
  cost_.observe(forward, forward_ms_);
  for (int drafter = 0; drafter < kCostlyDrafters; ++drafter) {
    const auto i = static_cast<size_t>(drafter);
    cost_.observe_draft(drafter, shape_.draft_rows[i], speculation_.draft_ms_each()[i]);
  }
  cost_.observe_draws(shape_.draws, drawn_seconds_ * 1e3);
  if (cost_.steps_off() == kStepsOff) speculation_.cost_was_off(actual_ms_ / std::max(expected_ms_, 1e-9));
}

void StepLoop::log_decisions() {
  const StepRecord step = {stats_.steps, expected_ms_, actual_ms_};
  for (const Piece& piece : pieces_) {
    const Branch& branch = *piece.branch;
    const Proposal* proposal = speculation_.proposal(branch.id);
    if (!branch.decodes() || proposal == nullptr) continue;
    options_.decisions->write(step, branch.request->id, branch.choice, *proposal, piece.accepted);
  }
}

}  // namespace dspark
