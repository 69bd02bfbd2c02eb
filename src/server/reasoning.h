// ReasoningSplitter: parts what a model thinks (<think>...</think> at the beginning of an answer) from what it says.
// Pieces of any size give the same two texts. One per answer, one thread.
#pragma once

#include <string>
#include <string_view>

namespace dspark {

inline constexpr std::string_view kThinkOpen = "<think>";
inline constexpr std::string_view kThinkClose = "</think>";

// How many bytes at the end of `text` begin `marker` without completing it.
size_t partial_suffix(std::string_view text, std::string_view marker);

class ReasoningSplitter {
 public:
  struct Parts {
    std::string reasoning;
    std::string content;
  };
  // `inside`: the prompt already ends with <think>.
  explicit ReasoningSplitter(bool inside) : state_(inside ? State::kOpened : State::kStart) {}

  // Newlines next to the tags belong to neither text.
  Parts push(std::string_view piece);
  Parts finish();
  // The newest text belongs to the thinking.
  bool inside() const { return state_ == State::kOpened || state_ == State::kInside; }

 private:
  enum class State { kStart, kOpened, kInside, kClosed, kContent };
  bool advance(Parts* out);

  State state_;
  std::string held_;
};

// Whether a rendered prompt leaves the answer inside of <think>.
bool ends_in_thinking(std::string_view prompt);

}  // namespace dspark
