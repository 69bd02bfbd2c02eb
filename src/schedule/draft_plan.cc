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

// Appends a draft of `length` that is like `known`; beyond its end it goes on as it ended.
void append_draft_like(std::span<const float> known, int length, std::vector<float>* out) {
  const auto given = std::min<ptrdiff_t>(length, std::ssize(known));
  out->insert(out->end(), known.begin(), known.begin() + given);
  float last = given == 0 ? 1.0f : out->back();
  const float before = given > 1 ? (*out)[out->size() - 2] : 1.0f;
  const float factor = known.empty() ? kUnknown : (before > 0.0f ? std::min(1.0f, last / before) : 0.0f);
  for (auto i = given; i < length; ++i) out->push_back(last *= factor);
}

class Rehearsal {
 public:
  Rehearsal(std::span<const DraftProspect> sequences, const StepBase& base, const CostModel& cost,
            const VerifyLimits& limits, int drafter)
      : sequences_(sequences), base_(base), cost_(cost), limits_(limits), drafter_(static_cast<size_t>(drafter)) {}

  // Expected tokens a millisecond if drafts of these lengths are made.
  double rate(const std::vector<int>& lengths, int rehearsals) {
    StepBase base = base_;
    const int rows = std::accumulate(lengths.begin(), lengths.end(), 0);
    base.draft_rows[drafter_] += rows;
    double tokens = 0.0, ms = 0.0;
    for (int r = 0; r < rehearsals; ++r) {
      drafts_.clear();
      drafts_.reserve(static_cast<size_t>(rows));  // what points into it stays valid
      drafted_.clear();
      for (size_t i = 0; i < sequences_.size(); ++i) {
        drafted_.push_back({expected(sequences_[i], lengths[i], r), sequences_[i].context});
      }
      const VerifyPlan plan = plan_verification(drafted_, base, cost_, limits_);
      tokens += plan.expected_tokens + base_.joining;
      ms += plan.decode_ms;
    }
    return ms > 0.0 ? tokens / ms : 0.0;
  }

 private:
  // The better one of what is at hand and what rehearsal `r` takes the drafter to make.
  std::span<const float> expected(const DraftProspect& sequence, int length, int r) {
    if (length == 0) return sequence.at_hand;
    const size_t known = sequence.recent.size(), first = drafts_.size();
    append_draft_like(known == 0 ? std::span<const float>() : sequence.recent[static_cast<size_t>(r) % known], length,
                      &drafts_);
    const std::span<const float> draft = std::span<const float>(drafts_).subspan(first);
    return promise(draft) > promise(sequence.at_hand) ? draft : sequence.at_hand;
  }

  std::span<const DraftProspect> sequences_;
  StepBase base_;
  const CostModel& cost_;
  const VerifyLimits& limits_;
  const size_t drafter_;
  std::vector<float> drafts_;  // of the newest rehearsal, one behind the other
  std::vector<DraftedSequence> drafted_;
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

double least_survival(int sequences, const StepBase& base, const CostModel& cost) {
  constexpr int kMostRows = 8;
  const int decodes = sequences + base.joining, rows = sequences + base.prompt_rows;
  const double rate = decodes / cost.ms({.rows = decodes}), before = cost.ms({.rows = rows});
  double row_ms = cost.ms({.rows = rows + 1}) - before;
  for (int more = 2; more <= kMostRows; ++more) {  // the cost is a staircase
    row_ms = std::min(row_ms, (cost.ms({.rows = rows + more}) - before) / more);
  }
  return 0.5 * rate * row_ms;
}

DraftPlan plan_drafts(std::span<const DraftProspect> sequences, const StepBase& base, const CostModel& cost,
                      const VerifyLimits& limits, int drafter) {
  DraftPlan best;
  best.lengths.assign(sequences.size(), 0);
  const bool many = std::ssize(sequences) >= kManySequences;
  const int rehearsals = std::clamp(kRehearsals / std::max(1, static_cast<int>(sequences.size())), 1, kRehearsals);
  Rehearsal rehearsal(sequences, base, cost, limits, drafter);
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
