// DraftWindow: how far back a drafter looks for one request. Where it may move, it begins with the density of the
// request's context and then follows the acceptance that each width brings. Pure; one owner at a time.
#pragma once

#include <cstdint>
#include <span>

namespace dspark {

struct WindowOptions {
  int size = 2048;  // positions; where it may move, its middle
  int min = 0;      // how far it may move; both 0: not at all
  int max = 0;
  bool moves() const { return min > 0 && max > min; }
};

class DraftWindow {
 public:
  // `context`: the request's tokens. The more bits a token of it carries, the wider the window begins: where few tokens
  // come again and again, the near ones say it all.
  DraftWindow(const WindowOptions& options, std::span<const int32_t> context);

  int positions() const { return positions_; }

  // So many of `drafted` tokens were accepted. After every kTrial drafts the window takes a step in the direction that
  // it last gained by, and turns back where it lost or can go no further.
  void verified(int drafted, int accepted);

  static constexpr int kTrial = 16;

 private:
  WindowOptions options_;
  int positions_;
  double direction_ = 0.75;  // factor of the next step, or its inverse
  int drafts_ = 0, drafted_ = 0, accepted_ = 0;
  double last_rate_ = -1.0;
};

// Entropy of the distribution of distinct tokens, as a part of what it would be if all were different: 0 to 1.
double token_density(std::span<const int32_t> tokens);

}  // namespace dspark
