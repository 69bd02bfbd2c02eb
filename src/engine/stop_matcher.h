// StopMatcher: finds stop texts in a stream and holds back what may still become one. One per answer, one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dspark {

class StopMatcher {
 public:
  // include_stop: the stop text is part of what is shown.
  explicit StopMatcher(std::vector<std::string> stops, bool include_stop = false)
      : stops_(std::move(stops)), include_stop_(include_stop) {}

  // The text that may be shown now that `piece` is here; nothing more follows once stopped() holds. Of several stop
  // texts the one that begins first counts, then the first of the list.
  std::string push(std::string_view piece);
  // What was held back, at the end of an answer that did not stop.
  std::string flush();
  bool stopped() const { return stop_.has_value(); }
  // Which of the stop texts was found.
  std::optional<int> stop() const { return stop_; }

 private:
  std::vector<std::string> stops_;
  bool include_stop_;
  std::string held_;
  std::optional<int> stop_;
};

}  // namespace dspark
