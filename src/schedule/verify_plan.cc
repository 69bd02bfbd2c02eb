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
};

// Likeliest first. A sequence's own tokens stay in order, because survival never grows along them.
std::vector<Candidate> ranked(std::span<const DraftedSequence> sequences, const VerifyLimits& limits) {
  std::vector<Candidate> out;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const int most = std::min(limits.most_each, static_cast<int>(sequences[i].survival.size()));
    float survival = 1.0f;
    for (int depth = 1; depth <= most; ++depth) {
      const float told = sequences[i].survival[static_cast<size_t>(depth - 1)];
      if (!(told > 0.0f)) break;  // NaN is worth nothing, either
      survival = std::min(survival, told);
      if (survival < static_cast<float>(limits.floor)) break;
      out.push_back({survival, static_cast<int>(i), depth});
    }
  }
  std::sort(out.begin(), out.end(), [](const Candidate& a, const Candidate& b) {
    if (a.survival != b.survival) return a.survival > b.survival;
    return a.depth != b.depth ? a.depth < b.depth : a.sequence < b.sequence;
  });
  return out;
}

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
  decodes.rows -= base.prompt_rows;
  decodes.context -= base.prompt_context;
  plan.decode_ms = sequences.empty() ? 0.0 : cost.ms(decodes);
  if (limits.fixed == 0) return plan;

  const double prompts_ms = plan.expected_ms - plan.decode_ms;
  VerifyLimits capped = limits;
  if (limits.fixed > 0) capped.most_each = std::min(limits.most_each, limits.fixed), capped.floor = 0.0;
  const std::vector<Candidate> candidates = ranked(sequences, capped);
  StepShape shape = plan.shape;
  double tokens = plan.expected_tokens;
  double best_rate = kLeastPlanGain * tokens / plan.decode_ms;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& next = candidates[i];
    add(next, sequences[static_cast<size_t>(next.sequence)], &shape);
    tokens += static_cast<double>(next.survival);
    const double ms = cost.ms(shape), rate = tokens / (ms - prompts_ms);
    const bool better = limits.budget >= 0 ? static_cast<int>(i) < limits.budget
                        : limits.fixed > 0 ? i + 1 == candidates.size()
                                           : rate > best_rate;
    if (!better) continue;
    best_rate = rate;
    plan.budget = static_cast<int>(i) + 1;
    plan.shape = shape;
    plan.expected_ms = ms;
    plan.decode_ms = ms - prompts_ms;
    plan.expected_tokens = tokens;
  }
  for (int i = 0; i < plan.budget; ++i) ++plan.depths[static_cast<size_t>(candidates[static_cast<size_t>(i)].sequence)];
  return plan;
}

std::string describe(const VerifyPlan& plan) {
  const double each =
      plan.depths.empty() ? 0.0 : static_cast<double>(plan.budget) / static_cast<double>(plan.depths.size());
  return fmt::format("{} sequences, verifies {} ({:.1f} each): {} rows, {:.2f} ms, {:.1f} tokens", plan.depths.size(),
                     plan.budget, each, plan.shape.rows, plan.expected_ms, plan.expected_tokens);
}

}  // namespace dspark
