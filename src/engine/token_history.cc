// Counting tokens: a dense list of entries and an open-addressing table of their places.
#include "engine/token_history.h"

#include <algorithm>

namespace dspark {

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const int32_t> prompt)
    : counted_(has_penalty(params)), window_(params.repetition_penalty == 1.0 ? 0 : params.repetition_window) {
  if (!counted_) return;
  slots_.resize(64);
  for (const int32_t token : prompt) enter_window(token);
}

void TokenHistory::append(int32_t token) {
  ++output_size_;
  if (!counted_) return;
  enter_window(token);
  ++entry(token).counts.in_output;
}

void TokenHistory::enter_window(int32_t token) {
  if (window_ == 0) return;
  ++entry(token).counts.in_window;
  if (window_ < 0) return;
  for (const int32_t old : leaving(1)) --entry(old).counts.in_window;
  tokens_.push_back(token);
}

std::span<const int32_t> TokenHistory::leaving(int64_t count) const {
  if (window_ <= 0) return {};
  const int64_t size = static_cast<int64_t>(tokens_.size());
  const int64_t first = std::max<int64_t>(0, size - window_);
  const int64_t end = std::clamp<int64_t>(size + count - window_, first, size);
  return std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(end - first));
}

TokenHistory::Counts TokenHistory::counts(int32_t token, std::span<const int32_t> drafted) const {
  const Entry* known = find(token);
  Counts out = known == nullptr ? Counts{} : known->counts;
  if (!counted_ || drafted.empty()) return out;
  out.in_output += std::count(drafted.begin(), drafted.end(), token);
  if (window_ == 0) return out;
  if (window_ > 0) {
    const auto old = leaving(static_cast<int64_t>(drafted.size()));
    out.in_window -= std::count(old.begin(), old.end(), token);
    if (static_cast<int64_t>(drafted.size()) > window_) drafted = drafted.last(static_cast<size_t>(window_));
  }
  out.in_window += std::count(drafted.begin(), drafted.end(), token);
  return out;
}

// Fibonacci hashing, then linear probing.
size_t TokenHistory::slot(int32_t token) const {
  const size_t mask = slots_.size() - 1;
  size_t at = (static_cast<uint64_t>(static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (slots_[at] != 0 && entries_[slots_[at] - 1].token != token) at = (at + 1) & mask;
  return at;
}

const TokenHistory::Entry* TokenHistory::find(int32_t token) const {
  if (slots_.empty()) return nullptr;
  const uint32_t place = slots_[slot(token)];
  return place == 0 ? nullptr : &entries_[place - 1];
}

TokenHistory::Entry& TokenHistory::entry(int32_t token) {
  size_t at = slot(token);
  if (slots_[at] == 0) {
    if (2 * (entries_.size() + 1) > slots_.size()) {
      grow();
      at = slot(token);
    }
    entries_.push_back({token, {}});
    slots_[at] = static_cast<uint32_t>(entries_.size());
  }
  return entries_[slots_[at] - 1];
}

void TokenHistory::grow() {
  slots_.assign(2 * slots_.size(), 0);
  for (size_t i = 0; i < entries_.size(); ++i) slots_[slot(entries_[i].token)] = static_cast<uint32_t>(i + 1);
}

}  // namespace dspark
