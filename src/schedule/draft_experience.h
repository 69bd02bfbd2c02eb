// DraftExperience: what a drafter's recent drafts were like, for those who plan the next ones: by sequence, and by
// situation, that is the kind of task and what was at hand without it. Pure; one owner at a time.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace dspark {

class DraftExperience {
 public:
  static constexpr int kStrengths = 4;  // of what is at hand: nothing, little, some, much
  static constexpr int kSituations = 8 * kStrengths;
  static int situation(int bucket, std::span<const float> at_hand);

  // The drafter made a draft of this survival.
  void learn(uint64_t sequence, int situation, std::span<const float> survival);
  void release(uint64_t sequence) { own_.erase(sequence); }

  // Appends kOwn + kKept recent drafts: the sequence's own newest in such a situation first, then all newest of the
  // situation. Where there are fewer, empty ones stand for those that are not known: a first bad draft says little, and
  // every answer is worth a try of its own. Valid until the next learn.
  void recent(uint64_t sequence, int situation, std::vector<std::span<const float>>* out) const;

  // A step is planned; `present`: situations that occur in it, `drafted`: those that the drafter drafts for. Returns
  // the situations that have been left out for so long that they should be tried again, one draft of each: what was
  // learnt may be out of date. Each try that does not bring it back makes the pause longer.
  std::vector<int> due(std::span<const int> present, std::span<const int> drafted);

  static constexpr int kOwn = 2, kKept = 8;
  static constexpr int kFirstPause = 32, kLongestPause = 128;  // steps

 private:
  struct Curve {
    std::array<float, 16> survival = {};
    int count = 0;
  };
  template <int kSize>
  struct Newest {
    std::array<Curve, kSize> curves = {};
    int next = 0;

    void add(const Curve& curve);
    void append_to(std::vector<std::span<const float>>* out) const;
  };
  struct Situation {
    Newest<kKept> newest;
    int idle = 0, pause = kFirstPause;
  };

  std::array<Situation, kSituations> situations_ = {};
  std::unordered_map<uint64_t, std::array<Newest<kOwn>, kStrengths>> own_;
};

}  // namespace dspark
