// See watched_drafter.h.
#include "draft/watched_drafter.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dspark {
namespace {

constexpr size_t kKept = 128;  // tokens of a distribution

Likeliest likeliest(const float* logits, int vocab, double temperature) {
  Likeliest out;
  float most = -std::numeric_limits<float>::infinity();
  for (int i = 0; i < vocab; ++i) most = std::max(most, logits[i]);
  double sum = 0.0;
  for (int i = 0; i < vocab; ++i) {
    if (!std::isfinite(logits[i])) continue;
    const double weight = std::exp(static_cast<double>(logits[i] - most) / temperature);
    sum += weight;
    out.emplace_back(i, static_cast<float>(weight));
  }
  const size_t kept = std::min(kKept, out.size());
  std::partial_sort(out.begin(), out.begin() + static_cast<int64_t>(kept), out.end(),
                    [](const auto& a, const auto& b) { return a.second > b.second; });
  out.resize(kept);
  for (auto& [token, chance] : out) chance = static_cast<float>(static_cast<double>(chance) / sum);
  return out;
}

// Draws as the request's own sampler does, and keeps what it drew from.
class KeepingSampler final : public DraftSampler {
 public:
  KeepingSampler(DraftSampler* sampler, int vocab, double temperature)
      : sampler_(sampler), vocab_(vocab), temperature_(temperature) {}

  int32_t draw(const float* logits, int position, std::span<const int32_t> drafted) override {
    distributions.push_back(likeliest(logits, vocab_, temperature_));
    return sampler_->draw(logits, position, drafted);
  }

  DraftSampler* drawn_by() const { return sampler_; }

  std::vector<Likeliest> distributions;

 private:
  DraftSampler* sampler_;
  int vocab_;
  double temperature_;
};

}  // namespace

void WatchedDrafter::propose(std::span<DraftRequest* const> requests) {
  std::vector<KeepingSampler> samplers;
  samplers.reserve(requests.size());
  for (DraftRequest* request : requests) {
    sequences_[request->sequence].tokens.assign(request->tokens.begin(), request->tokens.end());
    if (temperature_ <= 0.0 || request->sampler == nullptr) continue;
    request->sampler = &samplers.emplace_back(request->sampler, vocab_, temperature_);
  }
  drafter_->propose(requests);
  for (DraftRequest* request : requests) {
    if (temperature_ <= 0.0 || request->sampler == nullptr) continue;
    auto* keeping = static_cast<KeepingSampler*>(request->sampler);
    newest_[request->sequence] = std::move(keeping->distributions);
    request->sampler = keeping->drawn_by();
  }
}

void WatchedDrafter::release(uint64_t sequence) {
  newest_.erase(sequence);
  drafter_->release(sequence);
}

void WatchedDrafter::verified(const VerifiedDraft& result) {
  WatchedSequence& sequence = sequences_[result.sequence];
  WatchedDraft draft = {.anchor = static_cast<int>(sequence.tokens.size()) - 1,
                        .verified = {result.draft.begin(), result.draft.end()},
                        .distributions = {},
                        .accepted = result.accepted};
  if (const auto newest = newest_.find(result.sequence); newest != newest_.end()) {
    draft.distributions = std::move(newest->second);
    newest_.erase(newest);
  }
  sequence.drafts.push_back(std::move(draft));
  drafter_->verified(result);
}

}  // namespace dspark
