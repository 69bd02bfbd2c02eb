// See reasoning.h.
#include "server/reasoning.h"

#include <algorithm>
#include <utility>

namespace dspark {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

size_t partial_suffix(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n) {
    if (text.substr(text.size() - n) == marker.substr(0, n)) return n;
  }
  return 0;
}

ReasoningSplitter::Parts ReasoningSplitter::push(std::string_view piece) {
  Parts out;
  if (state_ == State::kContent) {
    out.content = piece;
    return out;
  }
  held_ += piece;
  while (advance(&out)) {
  }
  return out;
}

// One step over held_; false when it must wait for more.
bool ReasoningSplitter::advance(Parts* out) {
  switch (state_) {
    case State::kStart: {
      const size_t begin = std::min(held_.find_first_not_of(kSpace), held_.size());
      const std::string_view text = std::string_view(held_).substr(begin);
      if (text.starts_with(kThinkOpen)) {
        held_.erase(0, begin + kThinkOpen.size());
        state_ = State::kOpened;
        return true;
      }
      if (kThinkOpen.starts_with(text)) return false;
      state_ = State::kContent;
      out->content += std::exchange(held_, {});
      return false;
    }
    case State::kOpened:
    case State::kClosed:
      held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
      if (held_.empty()) return false;
      if (state_ == State::kOpened) {
        state_ = State::kInside;
        return true;
      }
      state_ = State::kContent;
      out->content += std::exchange(held_, {});
      return false;
    case State::kInside: {
      size_t end = held_.find(kThinkClose);
      const bool closes = end != std::string::npos;
      const size_t rest = closes ? end + kThinkClose.size() : held_.size() - partial_suffix(held_, kThinkClose);
      if (!closes) end = rest;
      while (end > 0 && held_[end - 1] == '\n') --end;
      out->reasoning += held_.substr(0, end);
      held_.erase(0, closes ? rest : end);
      if (closes) state_ = State::kClosed;
      return closes;
    }
    case State::kContent:
      break;
  }
  return false;
}

ReasoningSplitter::Parts ReasoningSplitter::finish() {
  Parts out;
  (inside() ? out.reasoning : out.content) = std::exchange(held_, {});
  return out;
}

bool ends_in_thinking(std::string_view prompt) {
  const size_t end = prompt.find_last_not_of(kSpace);
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with(kThinkOpen);
}

}  // namespace dspark
