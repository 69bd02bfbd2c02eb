// See draft_plan.h.
#include "schedule/draft_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace dspark {
namespace {

// The first survival at hand below which a sequence counts as having nothing, little, some or much.
constexpr float kAtHand[] = {0.0f, 0.4f, 0.7f, 0.9f, 2.0f};
constexpr int kManySequences = 16;        // from here on fewer sets are tried: there are more candidates in each
constexpr double kLeastDraftGain = 1.01;  // over what is at hand
// Each token of a draft of which nothing is known, given those before it.
constexpr float kUnknown = 0.7f;

double promise(std::span<const float> survival) {
  double sum = 0.0;
  for (const float s : survival) sum += static_cast<double>(s);
  return sum;
}

// A draft of `length` that is like `known`; beyond its end it goes on as it ended.
std::vector<float> draft_like(std::span<const float> known, int length) {
  std::vector<float> out(known.begin(), known.begin() + std::min<ptrdiff_t>(length, std::ssize(known)));
  float last = out.empty() ? 1.0f : out.back();
  const float before = out.size() > 1 ? out[out.size() - 2] : 1.0f;
  const float factor = known.empty() ? kUnknown : (before > 0.0f ? std::min(1.0f, last / before) : 0.0f);
  while (static_cast<int>(out.size()) < length) out.push_back(last *= factor);
  return out;
}

class Rehearsal {
 public:
  Rehearsal(std::span<const DraftProspect> sequences, const StepBase& base, const CostModel& cost,
            const VerifyLimits& limits)
      : sequences_(sequences), base_(base), cost_(cost), limits_(limits) {}

  // Expected tokens a millisecond if drafts of these lengths are made.
  double rate(const std::vector<int>& lengths, int rehearsals) const {
    StepBase base = base_;
    for (const int length : lengths) base.draft_rows += length;
    double tokens = 0.0, ms = 0.0;
    std::vector<std::vector<float>> drafts(sequences_.size());
    for (int r = 0; r < rehearsals; ++r) {
      std::vector<DraftedSequence> drafted;
      for (size_t i = 0; i < sequences_.size(); ++i) {
        drafted.push_back({expected(sequences_[i], lengths[i], r, drafts[i]), sequences_[i].context});
      }
      const VerifyPlan plan = plan_verification(drafted, base, cost_, limits_);
      tokens += plan.expected_tokens;
      ms += plan.decode_ms;
    }
    return ms > 0.0 ? tokens / ms : 0.0;
  }

 private:
  // The better one of what is at hand and what rehearsal `r` takes the drafter to make.
  static std::span<const float> expected(const DraftProspect& sequence, int length, int r, std::vector<float>& draft) {
    if (length == 0) return sequence.at_hand;
    const size_t known = sequence.recent.size();
    draft = draft_like(known == 0 ? std::span<const float>() : sequence.recent[static_cast<size_t>(r) % known], length);
    return promise(draft) > promise(sequence.at_hand) ? std::span<const float>(draft) : sequence.at_hand;
  }

  std::span<const DraftProspect> sequences_;
  StepBase base_;
  const CostModel& cost_;
  const VerifyLimits& limits_;
};

// The lengths if those draft that have less than this at hand.
std::vector<int> lengths_below(std::span<const DraftProspect> sequences, float at_hand) {
  std::vector<int> out;
  for (const DraftProspect& sequence : sequences) {
    const bool drafts = sequence.at_hand.empty() || sequence.at_hand[0] < at_hand;
    out.push_back(drafts ? sequence.most : 0);
  }
  return out;
}

std::vector<int> halved(std::vector<int> lengths) {
  for (int& length : lengths) length = (length + 1) / 2;
  return lengths;
}

}  // namespace

DraftPlan plan_drafts(std::span<const DraftProspect> sequences, const StepBase& base, const CostModel& cost,
                      const VerifyLimits& limits) {
  DraftPlan best;
  best.lengths.assign(sequences.size(), 0);
  const bool many = std::ssize(sequences) >= kManySequences;
  const int rehearsals = std::clamp(kRehearsals / std::max(1, static_cast<int>(sequences.size())), 1, kRehearsals);
  const Rehearsal rehearsal(sequences, base, cost, limits);
  const double without = rehearsal.rate(best.lengths, 1);
  double best_rate = without * kLeastDraftGain;
  std::vector<int> last = best.lengths;
  for (const float at_hand : kAtHand) {
    if (many && at_hand != kAtHand[1] && at_hand != *std::rbegin(kAtHand)) continue;
    const std::vector<int> whole = lengths_below(sequences, at_hand);
    if (whole == last) continue;
    last = whole;
    for (const bool half : {false, true}) {
      if (many && half) continue;
      const std::vector<int> lengths = half ? halved(whole) : whole;
      const double rate = rehearsal.rate(lengths, rehearsals);
      if (rate <= best_rate) continue;
      best_rate = rate;
      best = {lengths, std::accumulate(lengths.begin(), lengths.end(), 0), rate / without};
    }
  }
  return best;
}

}  // namespace dspark
