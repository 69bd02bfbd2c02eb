// See speculation.h.
#include "engine/speculation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/stopwatch.h"

namespace dspark {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kBetweenWarnings{60};

// Tokens that a draft should bring.
double promise(std::span<const DraftToken> draft) {
  return std::accumulate(draft.begin(), draft.end(), 0.0,
                         [](double sum, const DraftToken& token) { return sum + static_cast<double>(token.survival); });
}

void append_survival(std::span<const DraftToken> draft, std::vector<float>* out) {
  for (const DraftToken& token : draft) out->push_back(token.survival);
}

// Part i of what stands one behind the other.
template <class T>
std::span<const T> part(const std::vector<T>& values, const std::vector<size_t>& ends, size_t i) {
  const size_t first = i == 0 ? 0 : ends[i - 1];
  return std::span(values).subspan(first, ends[i] - first);
}

// Adds the time of its scope.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds) {}
  ~Stopwatch() { *seconds_ += seconds_since(start_); }

 private:
  double* seconds_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Speculation::Speculation(SpeculationOptions options, std::vector<std::shared_ptr<Drafter>> drafters)
    : options_(options), drafters_(std::move(drafters)), experience_(drafters_.size()) {
  int costly = 0;
  for (const auto& drafter : drafters_) costly_.push_back(drafter->costs_time() ? costly++ : -1);
  DSPARK_CHECK(costly <= kCostlyDrafters, "{} drafters cost time, {} may", costly, kCostlyDrafters);
}

void Speculation::set_options(const SpeculationOptions& options) {
  options_ = options;
  for (auto& [id, choice] : choices_) choice.window.reset();
}

int Speculation::replace(const std::shared_ptr<Drafter>& drafter, std::shared_ptr<Drafter> by) {
  const auto found = std::ranges::find(drafters_, drafter);
  DSPARK_CHECK(found != drafters_.end() && by->costs_time() == drafter->costs_time(),
               "the drafter {} is to be replaced by {}, and is not here or of another kind", drafter->name(),
               by->name());
  const size_t index = static_cast<size_t>(found - drafters_.begin());
  *found = std::move(by);
  experience_[index] = {};
  for (auto& [id, choice] : choices_) choice.given_up &= ~(1u << index);
  return costly_[index];
}

void Speculation::propose(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost) {
  draft_rows_ = {};
  draft_ms_ = {};
  for (Speculated* choice : choices) {
    choice->draft.clear();
    Choice& known = choices_[choice->id];
    known.proposal.drafter = "none";
    known.proposal.tokens.clear();
    known.proposal.verified = 0;
    known.bucket = choice->bucket;
  }
  if (!options_.enabled || options_.fixed == 0 || choices.empty()) return;
  const int sequences = static_cast<int>(choices.size());
  least_survival_ = options_.fixed > 0 ? 0.0 : std::max(options_.floor, least_survival(sequences, base, cost));
  {
    const Stopwatch watch(&stats_.propose_seconds);
    for (const bool costs_time : {false, true}) {
      for (size_t drafter = 0; drafter < drafters_.size(); ++drafter) {
        if (drafters_[drafter]->costs_time() != costs_time) continue;
        set_most(choices, drafter);
        if (costs_time && options_.fixed < 0) plan_lengths(choices, with_drafts(base), cost, drafter);
        ask(choices, drafter);
      }
    }
  }
  const Stopwatch watch(&stats_.plan_seconds);
  cut(choices, with_drafts(base), cost);
}

// What drafters have computed by now belongs to the step in any case.
StepBase Speculation::with_drafts(const StepBase& base) const {
  StepBase out = base;
  for (size_t i = 0; i < out.draft_rows.size(); ++i) out.draft_rows[i] += draft_rows_[i];
  return out;
}

void Speculation::set_most(std::span<Speculated* const> choices, size_t drafter) {
  const int cap = std::min(options_.fixed > 0 ? options_.fixed : kMostDrafted, drafters_[drafter]->max_tokens());
  lengths_.clear();
  for (const Speculated* choice : choices) {
    const Choice& known = choices_[choice->id];
    const bool asked = (known.health.may_draft() || !options_.pauses) && (known.given_up >> drafter & 1) == 0;
    lengths_.push_back(asked ? std::max(0, std::min({choice->room, options_.most_tokens, cap})) : 0);
  }
}

// The survival of all proposals as they stand.
void Speculation::keep_survival(std::span<Speculated* const> choices) {
  survival_.clear();
  survival_ends_.clear();
  for (const Speculated* choice : choices) {
    append_survival(choice->draft, &survival_);
    survival_ends_.push_back(survival_.size());
  }
}

// Shortens what may be drafted to what should pay; now and then a draft is made to see whether that is still so.
void Speculation::plan_lengths(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost,
                               size_t drafter) {
  const Stopwatch watch(&stats_.plan_seconds);
  keep_survival(choices);
  situations_.clear();
  recent_.clear();
  recent_ends_.clear();
  prospects_.clear();
  for (size_t i = 0; i < choices.size(); ++i) {
    situations_.push_back(DraftExperience::situation(choices[i]->bucket, part(survival_, survival_ends_, i)));
    experience_[drafter].recent(choices[i]->id, situations_.back(), &recent_);
    recent_ends_.push_back(recent_.size());
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    prospects_.push_back({part(survival_, survival_ends_, i), part(recent_, recent_ends_, i),
                          static_cast<int>(choices[i]->tokens.size()) - 1, lengths_[i]});
  }
  const VerifyLimits limits = {.most_each = options_.most_tokens, .floor = options_.floor};
  DraftPlan plan = plan_drafts(prospects_, base, cost, limits, costly_[drafter]);
  most_.swap(lengths_);
  lengths_.swap(plan.lengths);
  present_.clear();
  drafted_.clear();
  for (size_t i = 0; i < choices.size(); ++i) {
    if (most_[i] == 0) continue;
    present_.push_back(situations_[i]);
    if (lengths_[i] > 0) drafted_.push_back(situations_[i]);
    stats_.left_out += lengths_[i] == 0;
  }
  for (const int situation : experience_[drafter].due(present_, drafted_)) {
    for (size_t i = 0; i < choices.size(); ++i) {
      if (situations_[i] != situation || most_[i] == 0) continue;
      lengths_[i] = most_[i];
      ++stats_.retried;
      break;
    }
  }
}

// Lets a drafter propose for all that it is asked for at once.
void Speculation::ask(std::span<Speculated* const> choices, size_t drafter) {
  asking_.clear();
  asked_.clear();
  requests_.resize(std::max(requests_.size(), choices.size()));
  for (size_t i = 0; i < choices.size(); ++i) {
    if (lengths_[i] == 0) continue;
    Speculated& choice = *choices[i];
    std::optional<DraftWindow>& window = choices_[choice.id].window;
    if (!window) window.emplace(options_.window, choice.tokens);
    DraftRequest& request = requests_[asking_.size()];
    std::vector<DraftToken> memory = std::move(request.draft);
    memory.clear();
    request = {.sequence = choice.id,
               .tokens = choice.tokens,
               .blocks = choice.blocks,
               .context_begin = choice.context_begin,
               .window = window->positions(),
               .max_tokens = lengths_[i],
               .least_survival = least_survival_,
               .sampler = choice.sampler,
               .bucket = choice.bucket,
               .draft = std::move(memory)};
    asking_.push_back(&choice);
    asked_.push_back(&request);
  }
  if (asked_.empty()) return;
  const Clock::time_point start = Clock::now();
  drafters_[drafter]->propose(asked_);
  if (drafters_[drafter]->costs_time()) {
    const double seconds = seconds_since(start);
    const int rows = std::accumulate(lengths_.begin(), lengths_.end(), 0);
    const auto number = static_cast<size_t>(costly_[drafter]);
    draft_rows_[number] += rows;
    draft_ms_[number] += seconds * 1e3;
    stats_.draft_seconds += seconds;
    stats_.draft_rows += rows;
    stats_.drafts += static_cast<int64_t>(asked_.size());
  }
  for (size_t i = 0; i < asked_.size(); ++i) take(*asking_[i], *asked_[i], drafter);
}

// Keeps a proposal if it promises more than the one before it.
void Speculation::take(Speculated& choice, DraftRequest& request, size_t drafter) {
  Choice& known = choices_[choice.id];
  const auto finite = [](const DraftToken& token) { return std::isfinite(token.survival); };
  if (request.broken || !std::ranges::all_of(request.draft, finite)) return give_up(known, choice.id, drafter);
  if (drafters_[drafter]->costs_time()) {
    situation_.clear();
    append_survival(choice.draft, &situation_);
    learnt_.clear();
    append_survival(request.draft, &learnt_);
    experience_[drafter].learn(choice.id, DraftExperience::situation(choice.bucket, situation_), learnt_);
  }
  if (promise(request.draft) <= promise(choice.draft)) return;
  choice.draft.swap(request.draft);
  known.drafter = drafter;
}

void Speculation::give_up(Choice& choice, uint64_t id, size_t drafter) {
  ++stats_.broken;
  choice.given_up |= 1u << drafter;
  if (!may_warn()) return;
  log(LogLevel::kWarning, "the drafter {} gave NaN for sequence {}: its draft is left out, and it is not asked again",
      drafters_[drafter]->name(), id);
}

// Keeps of every draft what the plan verifies.
void Speculation::cut(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost) {
  keep_survival(choices);
  sequences_.clear();
  for (size_t i = 0; i < choices.size(); ++i) {
    sequences_.push_back({part(survival_, survival_ends_, i), static_cast<int>(choices[i]->tokens.size()) - 1});
  }
  plan_ = probe_.plan(sequences_, base, cost,
                      {.most_each = options_.most_tokens, .fixed = options_.fixed, .floor = options_.floor});
  for (size_t i = 0; i < choices.size(); ++i) {
    Choice& known = choices_[choices[i]->id];
    known.proposal.verified = plan_.depths[i];
    if (!choices[i]->draft.empty()) known.proposal.drafter = drafters_[known.drafter]->name();
    known.proposal.tokens = choices[i]->draft;
    choices[i]->draft.resize(static_cast<size_t>(plan_.depths[i]));
    stats_.expected_accepted += promise(choices[i]->draft);
  }
}

void Speculation::verified(uint64_t id, int accepted) {
  const auto found = choices_.find(id);
  if (found == choices_.end()) return;
  Choice& choice = found->second;
  const int verified = std::exchange(choice.proposal.verified, 0);
  if (options_.pauses) watch_health(choice, id, verified, accepted);
  if (verified == 0) return;
  const std::span<const DraftToken> draft = std::span(choice.proposal.tokens).first(static_cast<size_t>(verified));
  ++stats_.verifications;
  if (accepted == 0) ++stats_.failures;
  BucketStats& bucket = stats_.buckets[static_cast<size_t>(choice.bucket)];
  bucket.verified += verified;
  bucket.accepted += accepted;
  bucket.foretold += promise(draft);
  for (int i = 0; i < std::min(verified, kDraftPositions); ++i) {
    const size_t place = static_cast<size_t>(i);
    const double survival = static_cast<double>(draft[place].survival);
    SurvivalBin& bin = stats_.survival[place][static_cast<size_t>(
        std::clamp(static_cast<int>(survival * kSurvivalBins), 0, kSurvivalBins - 1))];
    ++bin.tokens;
    ++stats_.verified[place];
    bin.foretold += survival;
    if (i >= accepted) continue;
    ++bin.accepted;
    ++stats_.accepted[place];
  }
  if (choice.window) choice.window->verified(verified, accepted);
  drafters_[choice.drafter]->verified({id, draft, accepted, choice.bucket});
}

void Speculation::watch_health(Choice& choice, uint64_t id, int verified, int accepted) {
  const int pauses = choice.health.pauses();
  const double chance = verified == 0 ? 0.0 : static_cast<double>(choice.proposal.tokens[0].survival);
  choice.health.step(verified, accepted, chance);
  if (choice.health.pauses() == pauses) return;
  ++stats_.pauses;
  if (!may_warn()) return;
  log(LogLevel::kWarning,
      "{} verifications or more in a row accepted next to nothing of what was foretold for sequence {}; it drafts "
      "again "
      "later",
      kFailedRow, id);
}

void Speculation::cost_was_off(double factor) {
  ++stats_.cost_alarms;
  if (!may_warn()) return;
  log(LogLevel::kWarning, "steps take {:.2g} times what was foreseen; plans now go by what they take", factor);
}

void Speculation::release(uint64_t id) {
  choices_.erase(id);
  for (DraftExperience& each : experience_) each.release(id);
  for (auto& drafter : drafters_) drafter->release(id);
}

const Proposal* Speculation::proposal(uint64_t id) const {
  const auto found = choices_.find(id);
  return found == choices_.end() ? nullptr : &found->second.proposal;
}

// Warnings that could come in every step come once a minute.
bool Speculation::may_warn() {
  const Clock::time_point now = Clock::now();
  if (warned_ && now - *warned_ < kBetweenWarnings) return false;
  warned_ = now;
  return true;
}

}  // namespace dspark
