// See speculation.h.
#include "engine/speculation.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

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

std::vector<float> survival_of(std::span<const DraftToken> draft) {
  std::vector<float> out;
  for (const DraftToken& token : draft) out.push_back(token.survival);
  return out;
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
    : options_(options), drafters_(std::move(drafters)), experience_(drafters_.size()) {}

void Speculation::set_options(const SpeculationOptions& options) {
  options_ = options;
  for (auto& [id, choice] : choices_) choice.window.reset();
}

void Speculation::propose(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost) {
  draft_rows_ = 0;
  draft_ms_ = 0.0;
  for (Speculated* choice : choices) {
    choice->draft.clear();
    choices_[choice->id].proposal = {};
    choices_[choice->id].bucket = choice->bucket;
  }
  if (!options_.enabled || options_.fixed == 0) return;
  {
    const Stopwatch watch(&stats_.propose_seconds);
    for (const bool costs_time : {false, true}) {
      for (size_t drafter = 0; drafter < drafters_.size(); ++drafter) {
        if (drafters_[drafter]->costs_time() != costs_time) continue;
        std::vector<int> lengths = most_of(choices, drafter);
        if (costs_time && options_.fixed < 0) plan_lengths(choices, base, cost, drafter, &lengths);
        ask(choices, drafter, lengths);
      }
    }
  }
  const Stopwatch watch(&stats_.plan_seconds);
  cut(choices, base, cost);
}

std::vector<int> Speculation::most_of(std::span<Speculated* const> choices, size_t drafter) {
  const int cap = std::min(options_.fixed > 0 ? options_.fixed : kMostDrafted, drafters_[drafter]->max_tokens());
  std::vector<int> out;
  for (const Speculated* choice : choices) {
    const Choice& known = choices_[choice->id];
    const bool asked = (known.health.may_draft() || !options_.pauses) && (known.given_up >> drafter & 1) == 0;
    out.push_back(asked ? std::max(0, std::min({choice->room, options_.most_tokens, cap})) : 0);
  }
  return out;
}

// Shortens what may be drafted to what should pay; now and then a draft is made to see whether that is still so.
void Speculation::plan_lengths(std::span<Speculated* const> choices, const StepBase& base, const CostModel& cost,
                               size_t drafter, std::vector<int>* lengths) {
  const Stopwatch watch(&stats_.plan_seconds);
  std::vector<std::vector<float>> at_hand;
  std::vector<std::vector<std::span<const float>>> recent;
  std::vector<DraftProspect> prospects;
  std::vector<int> situations, drafted;
  for (size_t i = 0; i < choices.size(); ++i) {
    at_hand.push_back(survival_of(choices[i]->draft));
    situations.push_back(DraftExperience::situation(choices[i]->bucket, at_hand.back()));
    recent.push_back(experience_[drafter].recent(choices[i]->id, situations.back()));
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    prospects.push_back({at_hand[i], recent[i], static_cast<int>(choices[i]->tokens.size()) - 1, (*lengths)[i]});
  }
  const VerifyLimits limits = {.most_each = options_.most_tokens, .floor = options_.floor};
  const DraftPlan plan = plan_drafts(prospects, base, cost, limits);
  const std::vector<int> most = std::exchange(*lengths, plan.lengths);
  std::vector<int> present;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (most[i] == 0) continue;
    present.push_back(situations[i]);
    if ((*lengths)[i] > 0) drafted.push_back(situations[i]);
    stats_.left_out += (*lengths)[i] == 0;
  }
  for (const int situation : experience_[drafter].due(present, drafted)) {
    for (size_t i = 0; i < choices.size(); ++i) {
      if (situations[i] != situation || most[i] == 0) continue;
      (*lengths)[i] = most[i];
      ++stats_.retried;
      break;
    }
  }
}

// Lets a drafter propose for all that it is asked for at once.
void Speculation::ask(std::span<Speculated* const> choices, size_t drafter, std::span<const int> lengths) {
  requests_.clear();
  std::vector<Speculated*> asked;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (lengths[i] == 0) continue;
    Speculated& choice = *choices[i];
    std::optional<DraftWindow>& window = choices_[choice.id].window;
    if (!window) window.emplace(options_.window, choice.tokens);
    asked.push_back(&choice);
    requests_.push_back({.sequence = choice.id,
                         .tokens = choice.tokens,
                         .blocks = choice.blocks,
                         .context_begin = choice.context_begin,
                         .window = window->positions(),
                         .max_tokens = lengths[i],
                         .sampler = choice.sampler,
                         .bucket = choice.bucket});
  }
  if (asked.empty()) return;
  std::vector<DraftRequest*> requests;
  for (DraftRequest& request : requests_) requests.push_back(&request);
  const Clock::time_point start = Clock::now();
  drafters_[drafter]->propose(requests);
  if (drafters_[drafter]->costs_time()) {
    const double seconds = seconds_since(start);
    const int rows = std::accumulate(lengths.begin(), lengths.end(), 0);
    draft_rows_ += rows;
    draft_ms_ += seconds * 1e3;
    stats_.draft_seconds += seconds;
    stats_.draft_rows += rows;
    stats_.drafts += static_cast<int64_t>(asked.size());
  }
  for (size_t i = 0; i < asked.size(); ++i) take(*asked[i], requests_[i], drafter);
}

// Keeps a proposal if it promises more than the one before it.
void Speculation::take(Speculated& choice, DraftRequest& request, size_t drafter) {
  Choice& known = choices_[choice.id];
  const auto finite = [](const DraftToken& token) { return std::isfinite(token.survival); };
  if (request.broken || !std::ranges::all_of(request.draft, finite)) return give_up(known, choice.id, drafter);
  if (drafters_[drafter]->costs_time()) {
    const int situation = DraftExperience::situation(choice.bucket, survival_of(choice.draft));
    experience_[drafter].learn(choice.id, situation, survival_of(request.draft));
  }
  if (promise(request.draft) <= promise(choice.draft)) return;
  choice.draft = std::move(request.draft);
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
  std::vector<std::vector<float>> survivals;
  std::vector<DraftedSequence> sequences;
  for (const Speculated* choice : choices) survivals.push_back(survival_of(choice->draft));
  for (size_t i = 0; i < choices.size(); ++i) {
    sequences.push_back({survivals[i], static_cast<int>(choices[i]->tokens.size()) - 1});
  }
  StepBase whole = base;
  whole.draft_rows += draft_rows_;
  plan_ = probe_.plan(sequences, whole, cost,
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
  const int pauses = choice.health.pauses();
  const double chance = verified == 0 ? 0.0 : static_cast<double>(choice.proposal.tokens[0].survival);
  choice.health.step(verified, accepted, chance);
  if (choice.health.pauses() > pauses) {
    ++stats_.pauses;
    if (may_warn()) {
      log(LogLevel::kWarning,
          "{} verifications or more in a row accepted next to nothing of what was foretold for sequence {}; it drafts "
          "again later",
          kFailedRow, id);
    }
  }
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
