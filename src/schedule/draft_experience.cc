// See draft_experience.h.
#include "schedule/draft_experience.h"

#include <algorithm>

namespace dspark {
namespace {

constexpr float kStrength[] = {0.4f, 0.7f};  // first survival at hand: little, some, much

}  // namespace

int DraftExperience::situation(int bucket, std::span<const float> at_hand) {
  int strength = 0;
  if (!at_hand.empty()) strength = at_hand[0] < kStrength[0] ? 1 : at_hand[0] < kStrength[1] ? 2 : 3;
  return std::clamp(bucket, 0, kSituations / kStrengths - 1) * kStrengths + strength;
}

void DraftExperience::learn(uint64_t sequence, int situation, std::span<const float> survival) {
  if (survival.empty()) return;
  Curve curve;
  curve.count = static_cast<int>(std::min(survival.size(), curve.survival.size()));
  std::copy_n(survival.begin(), curve.count, curve.survival.begin());
  situations_[static_cast<size_t>(situation)].newest.add(curve);
  own_[sequence][static_cast<size_t>(situation % kStrengths)].add(curve);
}

template <int kSize>
void DraftExperience::Newest<kSize>::add(const Curve& curve) {
  curves[static_cast<size_t>(next)] = curve;
  next = (next + 1) % kSize;
}

// The newest first.
template <int kSize>
void DraftExperience::Newest<kSize>::append_to(std::vector<std::span<const float>>* out) const {
  for (int i = 1; i <= kSize; ++i) {
    const Curve& curve = curves[static_cast<size_t>((next - i + kSize) % kSize)];
    out->push_back(std::span(curve.survival).first(static_cast<size_t>(curve.count)));
  }
}

void DraftExperience::recent(uint64_t sequence, int situation, std::vector<std::span<const float>>* out) const {
  static const Newest<kOwn> kNone;
  const auto own = own_.find(sequence);
  (own == own_.end() ? kNone : own->second[static_cast<size_t>(situation % kStrengths)]).append_to(out);
  situations_[static_cast<size_t>(situation)].newest.append_to(out);
}

std::vector<int> DraftExperience::due(std::span<const int> present, std::span<const int> drafted) {
  std::vector<int> out;
  std::vector<int> left(present.begin(), present.end());
  std::sort(left.begin(), left.end());
  left.erase(std::unique(left.begin(), left.end()), left.end());
  for (const int number : left) {
    Situation& situation = situations_[static_cast<size_t>(number)];
    if (std::find(drafted.begin(), drafted.end(), number) != drafted.end()) {
      situation.idle = 0;
      situation.pause = kFirstPause;
    } else if (++situation.idle >= situation.pause) {
      situation.idle = 0;
      situation.pause = std::min(2 * situation.pause, kLongestPause);
      out.push_back(number);
    }
  }
  return out;
}

}  // namespace dspark
