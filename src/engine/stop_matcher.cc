// See stop_matcher.h.
#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace dspark {

std::string StopMatcher::push(std::string_view piece) {
  if (stopped()) return {};
  if (stops_.empty()) return std::string(piece);
  held_ += piece;
  size_t earliest = std::string::npos;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const size_t at = stops_[i].empty() ? std::string::npos : held_.find(stops_[i]);
    if (at < earliest) earliest = at, stop_ = static_cast<int>(i);
  }
  if (stopped()) {
    held_.resize(earliest + (include_stop_ ? stops_[static_cast<size_t>(*stop_)].size() : 0));
    return std::exchange(held_, {});
  }
  // The longest end of the text that begins a stop text stays here.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size(), held_.size()); n > keep; --n) {
      if (held_.compare(held_.size() - n, n, stop, 0, n) == 0) keep = n;
    }
  }
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::flush() { return std::exchange(held_, {}); }

}  // namespace dspark
