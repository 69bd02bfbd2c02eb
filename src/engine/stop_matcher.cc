// See stop_matcher.h.
#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace dspark {

std::string StopMatcher::push(std::string_view piece) {
  if (stopped_) return {};
  held_ += piece;
  size_t earliest = std::string::npos;
  for (const std::string& stop : stops_) {
    if (!stop.empty()) earliest = std::min(earliest, held_.find(stop));
  }
  if (earliest != std::string::npos) {
    stopped_ = true;
    held_.resize(earliest);
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
