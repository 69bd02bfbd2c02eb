// StopMatcher: finds stop texts in a stream and holds back what may still become one. One per answer, one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dspark {

class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that may be shown now that `piece` is here; nothing more follows once stopped() holds.
  std::string push(std::string_view piece);
  // What was held back, at the end of an answer that did not stop.
  std::string flush();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace dspark
