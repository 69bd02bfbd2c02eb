// See verify_plan.h.
#include "schedule/verify_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace dspark {
namespace {

struct Candidate {
  float survival;
  int sequence;
  int depth;  // 1 for the first drafted token

  // Whether it is likelier; of equal ones the shallower, then that of the earlier sequence.
  bool before(const Candidate& other) const {
    if (survival != other.survival) return survival > other.survival;
    return depth != other.depth ? depth < other.depth : sequence < other.sequence;
  }
};

// The pairs of sequence and drafted token, likeliest first; those of a sequence in their order, because survival never
// grows along them. A heap of each sequence's next: most plans need few of all.
class Candidates {
 public:
  Candidates(std::span<const DraftedSequence> sequences, const VerifyLimits& limits) : sequences_(sequences) {
    counts_.reserve(sequences.size());
    heap_.reserve(sequences.size());
    for (size_t i = 0; i < sequences.size(); ++i) {
      const std::span<const float> survival = sequences[i].survival;
      const int most = std::min(limits.most_each, static_cast<int>(survival.size()));
      int count = 0;
      double promised = 0.0;
      for (float lowest = 1.0f; count < most; ++count) {
        const float told = survival[static_cast<size_t>(count)];
        if (!(told > 0.0f)) break;  // NaN is worth nothing, either
        lowest = std::min(lowest, told);
        if (lowest < static_cast<float>(limits.floor)) break;
        promised += static_cast<double>(lowest);
      }
      promise_ += promised;
      counts_.push_back(count);
      if (count > 0) heap_.push_back({std::min(1.0f, survival[0]), static_cast<int>(i), 1});
    }
    std::make_heap(heap_.begin(), heap_.end(), [](const auto& a, const auto& b) { return b.before(a); });
  }

  bool empty() const { return heap_.empty(); }
  // Tokens that all of them together should bring.
  double promise() const { return promise_; }

  Candidate take() {
    const Candidate out = heap_.front();
    promise_ -= static_cast<double>(out.survival);
    const auto sequence = static_cast<size_t>(out.sequence);
    Candidate next = heap_.back();
    if (out.depth < counts_[sequence]) {
      const float told = sequences_[sequence].survival[static_cast<size_t>(out.depth)];
      next = {std::min(out.survival, told), out.sequence, out.depth + 1};
    } else {
      heap_.pop_back();
    }
    if (!heap_.empty()) sink(next);
    return out;
  }

 private:
  // Puts it in the first one's place, and those that go before it above it.
  void sink(const Candidate& candidate) {
    size_t at = 0;
    for (size_t child = 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(candidate)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = candidate;
  }

  std::span<const DraftedSequence> sequences_;
  std::vector<int> counts_;  // [sequences]: candidates
  std::vector<Candidate> heap_;
  double promise_ = 0.0;
};

StepShape undrafted(std::span<const DraftedSequence> sequences, const StepBase& base) {
  const int decodes = static_cast<int>(sequences.size());
  StepShape shape = {.rows = base.prompt_rows + decodes,
                     .context = base.prompt_context,
                     .draft_rows = base.draft_rows,
                     .draws = decodes};
  for (const DraftedSequence& sequence : sequences) shape.context += sequence.context + 1;
  return shape;
}

// One more drafted token, which looks at all before it.
void add(const Candidate& next, const DraftedSequence& sequence, StepShape* shape) {
  shape->rows += 1;
  shape->draws += 1;
  shape->context += sequence.context + next.depth + 1;
}

}  // namespace

VerifyPlan plan_verification(std::span<const DraftedSequence> sequences, const StepBase& base, const CostModel& cost,
                             const VerifyLimits& limits) {
  VerifyPlan plan;
  plan.depths.assign(sequences.size(), 0);
  plan.shape = undrafted(sequences, base);
  plan.expected_ms = cost.ms(plan.shape);
  plan.expected_tokens = static_cast<double>(sequences.size());
  StepShape decodes = plan.shape;
  decodes.rows += base.joining - base.prompt_rows;
  decodes.context -= base.prompt_context;
  plan.decode_ms = sequences.empty() ? 0.0 : cost.ms(decodes);
  if (limits.fixed == 0) return plan;

  const double prompts_ms = plan.expected_ms - plan.decode_ms;
  VerifyLimits capped = limits;
  if (limits.fixed > 0) capped.most_each = std::min(limits.most_each, limits.fixed), capped.floor = 0.0;
  Candidates candidates(sequences, capped);
  const bool planned = limits.fixed < 0 && limits.budget < 0;
  std::vector<int> taken;  // whose, in order
  StepShape shape = plan.shape;
  double tokens = plan.expected_tokens + base.joining;
  double best_rate = kLeastPlanGain * tokens / plan.decode_ms;
  while (!candidates.empty()) {
    if (limits.budget >= 0 && std::ssize(taken) >= limits.budget) break;
    const Candidate next = candidates.take();
    taken.push_back(next.sequence);
    add(next, sequences[static_cast<size_t>(next.sequence)], &shape);
    tokens += static_cast<double>(next.survival);
    const double ms = cost.ms(shape), decode_ms = ms - prompts_ms;
    if (!planned || tokens / decode_ms > best_rate) {
      best_rate = tokens / decode_ms;
      plan.budget = static_cast<int>(taken.size());
      plan.shape = shape;
      plan.expected_ms = ms;
      plan.decode_ms = decode_ms;
      plan.expected_tokens = tokens - base.joining;
    }
    // More rows never take less time: where all that is left would not do in this time, no later cut is better.
    if (planned && tokens + candidates.promise() < best_rate * decode_ms) break;
  }
  for (int i = 0; i < plan.budget; ++i) ++plan.depths[static_cast<size_t>(taken[static_cast<size_t>(i)])];
  return plan;
}

std::string describe(const VerifyPlan& plan) {
  const double each =
      plan.depths.empty() ? 0.0 : static_cast<double>(plan.budget) / static_cast<double>(plan.depths.size());
  return fmt::format("{} sequences, verifies {} ({:.1f} each): {} rows, {:.2f} ms, {:.1f} tokens", plan.depths.size(),
                     plan.budget, each, plan.shape.rows, plan.expected_ms, plan.expected_tokens);
}

}  // namespace dspark
