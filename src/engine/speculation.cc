// See speculation.h.
#include "engine/speculation.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/log.h"

namespace dspark {
namespace {

// Tokens that a draft should bring.
double promise(std::span<const DraftToken> draft) {
  return std::accumulate(draft.begin(), draft.end(), 0.0,
                         [](double sum, const DraftToken& token) { return sum + static_cast<double>(token.survival); });
}

// Adds the time of its scope.
class Stopwatch {
 public:
  explicit Stopwatch(double* seconds) : seconds_(seconds) {}
  ~Stopwatch() { *seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double* seconds_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Speculation::Speculation(SpeculationOptions options, std::vector<std::shared_ptr<Drafter>> drafters)
    : options_(options), drafters_(std::move(drafters)) {}

void Speculation::propose(std::span<Speculated* const> choices, const CostModel& cost) {
  for (Speculated* choice : choices) choice->draft.clear();
  if (!options_.enabled || options_.fixed == 0) return;
  {
    const Stopwatch watch(&stats_.propose_seconds);
    for (size_t drafter = 0; drafter < drafters_.size(); ++drafter) take_best(choices, drafter);
  }
  const Stopwatch watch(&stats_.plan_seconds);
  cut(choices, cost);
}

// Lets a drafter propose, and keeps what promises more than the proposals before it.
void Speculation::take_best(std::span<Speculated* const> choices, size_t drafter) {
  requests_.clear();
  std::vector<Speculated*> asked;
  for (Speculated* choice : choices) {
    if (choice->room <= 0 || !choices_[choice->id].health.may_draft()) continue;
    asked.push_back(choice);
    requests_.push_back({.sequence = choice->id,
                         .tokens = choice->tokens,
                         .blocks = choice->blocks,
                         .context_begin = choice->context_begin,
                         .window = options_.window,
                         .max_tokens = std::min({choice->room, options_.most_tokens, drafters_[drafter]->max_tokens()}),
                         .sampler = choice->sampler});
  }
  std::vector<DraftRequest*> requests;
  for (DraftRequest& request : requests_) requests.push_back(&request);
  if (!requests.empty()) drafters_[drafter]->propose(requests);
  for (size_t i = 0; i < asked.size(); ++i) {
    if (requests_[i].broken) {
      ++stats_.broken;
      log(LogLevel::kWarning, "the drafter {} gave NaN for sequence {}; its draft is left out",
          drafters_[drafter]->name(), asked[i]->id);
      continue;
    }
    if (promise(requests_[i].draft) <= promise(asked[i]->draft)) continue;
    asked[i]->draft = std::move(requests_[i].draft);
    choices_[asked[i]->id].drafter = drafter;
  }
}

// Keeps of every draft what the plan verifies.
void Speculation::cut(std::span<Speculated* const> choices, const CostModel& cost) {
  std::vector<std::vector<float>> survivals(choices.size());
  std::vector<DraftedSequence> sequences;
  for (size_t i = 0; i < choices.size(); ++i) {
    for (const DraftToken& token : choices[i]->draft) survivals[i].push_back(token.survival);
    sequences.push_back({survivals[i], static_cast<int>(choices[i]->tokens.size()) - 1});
  }
  plan_ = plan_verification(sequences, {}, cost,
                            {.most_each = options_.most_tokens, .fixed = options_.fixed, .floor = options_.floor});
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i]->draft.resize(static_cast<size_t>(plan_.depths[i]));
    stats_.expected_accepted += promise(choices[i]->draft);
    choices_[choices[i]->id].draft = choices[i]->draft;
  }
}

void Speculation::verified(uint64_t id, int accepted) {
  const auto found = choices_.find(id);
  if (found == choices_.end()) return;
  Choice& choice = found->second;
  const std::vector<DraftToken> draft = std::exchange(choice.draft, {});
  const int pauses = choice.health.pauses();
  choice.health.step(static_cast<int>(draft.size()), accepted);
  stats_.pauses += choice.health.pauses() - pauses;
  if (draft.empty()) return;
  ++stats_.verifications;
  if (accepted == 0) ++stats_.failures;
  for (size_t i = 0; i < std::min<size_t>(draft.size(), kDraftPositions); ++i) {
    ++stats_.verified[i];
    if (static_cast<int>(i) < accepted) ++stats_.accepted[i];
  }
  drafters_[choice.drafter]->verified({id, draft, accepted});
}

void Speculation::release(uint64_t id) {
  choices_.erase(id);
  for (auto& drafter : drafters_) drafter->release(id);
}

}  // namespace dspark
