// NgramDrafter: proposes what followed the sequence's newest tokens the last time they stood in it. Costs next to
// nothing; good at copying and repetition. Step thread.
#pragma once

#include <array>
#include <unordered_map>
#include <utility>

#include "draft/drafter.h"
#include "draft/ngram_index.h"

namespace dspark {

// How often the target takes the token that follows a match, by the match's length: learnt from what was verified, of
// one sequence on top of all sequences. Pure.
class MatchSurvival {
 public:
  static constexpr int kBuckets = 10;
  using Counts = std::array<double, kBuckets>;
  struct Record {
    Counts tried = {}, taken = {};  // fading
  };

  static int bucket(int length);
  // A token behind a match of `length` was taken or not.
  static void observe(int length, bool taken, Record* record);
  // The chance of the next token; `own` stands on `all`, which stands on what is usual.
  static double chance(int length, const Record& own, const Record& all);
};

class NgramDrafter : public Drafter {
 public:
  // `store` is shared with whoever else looks things up.
  NgramDrafter(std::shared_ptr<NgramStore> store, int max_tokens) : store_(std::move(store)), max_tokens_(max_tokens) {}

  std::string_view name() const override { return "ngram"; }
  int max_tokens() const override { return max_tokens_; }
  void propose(std::span<DraftRequest* const> requests) override;
  void verified(const VerifiedDraft& result) override;
  void release(uint64_t sequence) override;

 private:
  struct Own {
    MatchSurvival::Record record;
    int length = 0;  // of the match behind the newest proposal
  };

  std::shared_ptr<NgramStore> store_;
  int max_tokens_;
  MatchSurvival::Record all_;
  std::unordered_map<uint64_t, Own> own_;
};

}  // namespace dspark
