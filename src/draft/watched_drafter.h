// WatchedDrafter: a drafter under observation. It passes everything on, and keeps what was verified and what became of
// it, for evaluation and calibration. Step thread; take() once nobody drafts any more.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "draft/drafter.h"

namespace dspark {

// The likeliest tokens of a distribution, with their chances.
using Likeliest = std::vector<std::pair<int32_t, float>>;

struct WatchedDraft {
  int anchor = 0;                        // position of the token before the draft
  std::vector<DraftToken> verified;      // maybe less than was proposed
  std::vector<Likeliest> distributions;  // that the tokens were drawn from; empty unless they are kept
  int accepted = 0;
};

struct WatchedSequence {
  std::vector<int32_t> tokens;  // as of the newest draft, the anchor included
  std::vector<WatchedDraft> drafts;
};

class WatchedDrafter final : public Drafter {
 public:
  // `temperature` above 0: the drafter's distributions over the target's `vocab` tokens are kept as well.
  WatchedDrafter(std::shared_ptr<Drafter> drafter, int vocab, double temperature)
      : drafter_(std::move(drafter)), vocab_(vocab), temperature_(temperature) {}

  std::string_view name() const override { return drafter_->name(); }
  int max_tokens() const override { return drafter_->max_tokens(); }
  bool costs_time() const override { return drafter_->costs_time(); }
  std::span<const int> hidden_layers() const override { return drafter_->hidden_layers(); }
  std::vector<KvLayout> kv_layouts() const override { return drafter_->kv_layouts(); }
  void computed(std::span<const ComputedRow> rows, const float* hidden, int hidden_rows) override {
    drafter_->computed(rows, hidden, hidden_rows);
  }
  void settle() override { drafter_->settle(); }
  void propose(std::span<DraftRequest* const> requests) override;
  void verified(const VerifiedDraft& result) override;
  void release(uint64_t sequence) override;

  // All sequences so far, by the caller's names of them; forgets them.
  std::map<uint64_t, WatchedSequence> take() { return std::exchange(sequences_, {}); }

 private:
  std::shared_ptr<Drafter> drafter_;
  const int vocab_;
  const double temperature_;
  std::map<uint64_t, WatchedSequence> sequences_;
  std::map<uint64_t, std::vector<Likeliest>> newest_;  // distributions of the newest proposal
};

}  // namespace dspark
