// See ngram_drafter.h.
#include "draft/ngram_drafter.h"

#include <algorithm>
#include <limits>

namespace dspark {
namespace {

constexpr int kBucketStart[MatchSurvival::kBuckets] = {1, 2, 3, 4, 5, 7, 9, 13, 17, 33};
// Before anything is known, and how many observations it is worth.
constexpr double kUsual[MatchSurvival::kBuckets] = {0.25, 0.40, 0.50, 0.57, 0.63, 0.70, 0.75, 0.80, 0.85, 0.90};
constexpr double kUsualWeight = 16.0, kAllWeight = 8.0;
// Old observations fade: half of one is left after about 340 more of its length.
constexpr double kFade = 0.998;

}  // namespace

int MatchSurvival::bucket(int length) {
  const int* end = kBucketStart + kBuckets;
  return std::max(0, static_cast<int>(std::upper_bound(kBucketStart, end, length) - kBucketStart) - 1);
}

void MatchSurvival::observe(int length, bool taken, Record* record) {
  const size_t at = static_cast<size_t>(bucket(length));
  record->tried[at] = record->tried[at] * kFade + 1.0;
  record->taken[at] = record->taken[at] * kFade + (taken ? 1.0 : 0.0);
}

double MatchSurvival::chance(int length, const Record& own, const Record& all) {
  const size_t at = static_cast<size_t>(bucket(length));
  const double general = (all.taken[at] + kUsualWeight * kUsual[at]) / (all.tried[at] + kUsualWeight);
  return (own.taken[at] + kAllWeight * general) / (own.tried[at] + kAllWeight);
}

void NgramDrafter::propose(std::span<DraftRequest* const> requests) {
  for (DraftRequest* request : requests) {
    request->draft.clear();
    request->broken = false;
    const NgramIndex& index = store_->of(request->sequence, request->tokens);
    Own& own = own_[request->sequence];
    own.length = index.match().length;
    double survival = 1.0;
    int length = own.length;
    for (const int32_t token : index.continuation(std::min(request->max_tokens, max_tokens_))) {
      survival *= MatchSurvival::chance(length++, own.record, all_);
      request->draft.push_back({token, static_cast<float>(survival), std::numeric_limits<float>::quiet_NaN()});
    }
  }
}

void NgramDrafter::verified(const VerifiedDraft& result) {
  const auto found = own_.find(result.sequence);
  if (found == own_.end()) return;
  Own& own = found->second;
  const int drafted = static_cast<int>(result.draft.size());
  // What stands behind the first miss was no longer asked.
  for (int i = 0; i < std::min(result.accepted + 1, drafted); ++i) {
    MatchSurvival::observe(own.length + i, i < result.accepted, &own.record);
    MatchSurvival::observe(own.length + i, i < result.accepted, &all_);
  }
}

void NgramDrafter::release(uint64_t sequence) {
  own_.erase(sequence);
  store_->release(sequence);
}

}  // namespace dspark
