// See draft_window.h.
#include "draft/draft_window.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace dspark {

double token_density(std::span<const int32_t> tokens) {
  if (tokens.size() < 2) return 1.0;
  std::unordered_map<int32_t, int> counts;
  for (const int32_t token : tokens) ++counts[token];
  const double total = static_cast<double>(tokens.size());
  double entropy = 0.0;
  for (const auto& [token, count] : counts) {
    const double share = count / total;
    entropy -= share * std::log(share);
  }
  return std::clamp(entropy / std::log(total), 0.0, 1.0);
}

DraftWindow::DraftWindow(const WindowOptions& options, std::span<const int32_t> context)
    : options_(options), positions_(options.size) {
  if (!options_.moves()) return;
  const double width = static_cast<double>(options_.max - options_.min);
  positions_ = options_.min + static_cast<int>(width * token_density(context));
}

void DraftWindow::verified(int drafted, int accepted) {
  if (!options_.moves() || drafted <= 0) return;
  ++drafts_;
  drafted_ += drafted;
  accepted_ += accepted;
  if (drafts_ < kTrial) return;
  const double rate = static_cast<double>(accepted_) / drafted_;
  if (rate < last_rate_) direction_ = 1.0 / direction_;
  last_rate_ = rate;
  const int wanted = static_cast<int>(positions_ * direction_);
  positions_ = std::clamp(wanted, options_.min, options_.max);
  if (positions_ != wanted) direction_ = 1.0 / direction_;
  drafts_ = drafted_ = accepted_ = 0;
}

}  // namespace dspark
