// NgramIndex: the tokens of one sequence, and where its newest ones stood before: what followed them there is a guess
// of what follows now (prompt lookup). One owner at a time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace dspark {

// An earlier place where the tokens before `next` equal the newest `length` tokens.
struct NgramMatch {
  int length = 0;  // 0: nowhere
  int next = 0;    // index of the token that followed
};

class NgramIndex {
 public:
  // Matches up to here are found exactly, the most recent one of the longest; longer ones are followed as long as they
  // go on, up to kMaxLength.
  static constexpr int kMaxOrder = 8;
  static constexpr int kMaxLength = 64;

  // Amortised constant time.
  void append(int32_t token);
  // Appends what is new in `tokens`, which begins with the tokens that are here (or is shorter: then all starts again).
  void catch_up(std::span<const int32_t> tokens);

  int size() const { return static_cast<int>(tokens_.size()); }
  const NgramMatch& match() const { return match_; }
  // What followed the match, `count` tokens: where it runs into the end of the sequence, it goes on with itself.
  // Empty without a match.
  std::vector<int32_t> continuation(int count) const;

 private:
  // The last place of a hash. Colliding tokens share it: what is found is compared before it counts.
  struct Slot {
    uint32_t hash;
    int32_t end;  // index behind the tokens; 0 for a free slot
  };

  int common_suffix(int end, int most) const;
  Slot& slot(uint32_t hash);
  void grow();

  std::vector<int32_t> tokens_;
  std::vector<Slot> slots_;  // a power of two, at most half full
  size_t used_ = 0;
  NgramMatch match_;
};

// The indices of all running sequences, for the drafters that look things up. Step thread.
class NgramStore {
 public:
  // Of `sequence`, caught up to `tokens`. Valid until it is released.
  const NgramIndex& of(uint64_t sequence, std::span<const int32_t> tokens);
  void release(uint64_t sequence) { indices_.erase(sequence); }

 private:
  std::unordered_map<uint64_t, NgramIndex> indices_;
};

}  // namespace dspark
