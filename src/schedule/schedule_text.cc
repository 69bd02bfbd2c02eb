// Names and texts of schedule.h: what settings say, and what logs show of a plan.
#include <fmt/format.h>

#include <charconv>

#include "base/printable.h"
#include "schedule/schedule.h"

namespace dspark {
namespace {

constexpr std::array kPolicies = {SchedulePolicy::kHitRate, SchedulePolicy::kLatencyAware, SchedulePolicy::kHybrid};

Result<double> share_from_text(std::string_view text) {
  double share = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error == std::errc() && end == text.data() + text.size() && share >= 0.0 && share <= 1.0) return share;
  return make_error(ErrorCode::kInvalidArgument, "pool share {}, expected a number from 0 to 1", quote(text));
}

}  // namespace

const char* schedule_policy_name(SchedulePolicy policy) {
  switch (policy) {
    case SchedulePolicy::kHitRate:
      return "hit-rate";
    case SchedulePolicy::kLatencyAware:
      return "latency-aware";
    case SchedulePolicy::kHybrid:
      return "hybrid";
  }
  return "?";
}

Result<SchedulePolicy> schedule_policy_from_name(std::string_view name) {
  for (const SchedulePolicy policy : kPolicies) {
    if (name == schedule_policy_name(policy)) return policy;
  }
  return make_error(ErrorCode::kInvalidArgument, "scheduler policy {}, expected hit-rate, latency-aware or hybrid",
                    quote(name));
}

Result<PoolShares> pool_shares_from_text(std::string_view text) {
  PoolShares shares = {};
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t colon = std::min(entry.find(':'), entry.size());
    const std::string_view name = entry.substr(0, colon);
    if (colon == entry.size() || (name != "short" && name != "long")) {
      return make_error(ErrorCode::kInvalidArgument, "pool {}, expected short:SHARE or long:SHARE", quote(entry));
    }
    const Pool pool = name == "short" ? Pool::kShort : Pool::kLong;
    DSPARK_TRY(shares[static_cast<size_t>(pool)], share_from_text(entry.substr(colon + 1)));
  }
  if (shares[0] + shares[1] > 1.0) {
    return make_error(ErrorCode::kInvalidArgument, "pool shares {} and {} are more than the whole, expected a sum of 1",
                      shares[0], shares[1]);
  }
  return shares;
}

std::string describe(const Plan& plan) {
  std::string out = fmt::format("{} decodes ({} rows)", plan.decodes.size(), plan.decode_rows);
  if (!plan.chunks.empty()) out += ", prompts";
  for (const PlanPiece& piece : plan.chunks)
    out += fmt::format(" {}{}:{}", piece.admitted ? "+" : "", piece.id, piece.rows);
  if (!plan.preempted.empty()) out += fmt::format(", preempts {}", fmt::join(plan.preempted, " "));
  if (!plan.exhausted.empty()) out += fmt::format(", no memory for {}", fmt::join(plan.exhausted, " "));
  return out + fmt::format("; {} prompt rows of {}, {} blocks free; expects {} tokens in {:.2f} ms", plan.prompt_rows,
                           plan.prompt_limit, plan.free_blocks, plan.expected_tokens, plan.expected_ms);
}

}  // namespace dspark
