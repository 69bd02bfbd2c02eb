// See draft_health.h.
#include "schedule/draft_health.h"

#include <algorithm>

namespace dspark {

void DraftHealth::step(int drafted, int accepted, double chance) {
  if (pause_left_ > 0) --pause_left_;
  if (drafted == 0) return;
  drafted_ += drafted;
  accepted_ += accepted;
  if (accepted_ >= kFailedShare * drafted_) {
    failures_ = drafted_ = accepted_ = 0;
    luck_ = 1.0;
    next_pause_ = 8;
    return;
  }
  if (accepted == 0) luck_ *= 1.0 - std::clamp(chance, 0.0, 1.0);
  if (++failures_ < kFailedRow || luck_ > kBadLuck) return;
  pause_left_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  ++pauses_;
  failures_ = drafted_ = accepted_ = 0;
  luck_ = 1.0;
}

}  // namespace dspark
