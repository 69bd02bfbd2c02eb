// Drafter: whoever guesses the next tokens of sequences, so that the target can check several at once. What it guesses
// never changes what is generated, only how fast. All calls on the step thread; its loops run on the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kernels/kv_layout.h"

namespace dspark {

struct DraftToken {
  int32_t token;
  float survival;    // the chance that the target takes this token and all before it
  float confidence;  // the confidence head's logit for it, uncalibrated; NaN without such a head
};

// Draws a request's draft tokens as the target will draw its own: same filters, penalties, grammar and noise (token
// law). The engine's, over its Sampler. Called on workers, one call at a time for each object.
class DraftSampler {
 public:
  virtual ~DraftSampler() = default;
  // The token at `position` of the sequence, given the drafted ones before it. logits [vocabulary of the target], with
  // -infinity for what the drafter cannot say. -1 if no token can be drawn: the draft ends there.
  virtual int32_t draw(const float* logits, int position, std::span<const int32_t> drafted) = 0;
};

struct DraftRequest {
  uint64_t sequence = 0;                  // the caller's name of it, the same in every call
  std::span<const int32_t> tokens;        // prompt and output; the last one, the anchor, has not been computed yet
  std::span<uint8_t* const> blocks = {};  // of the KV of all positions before the anchor
  int context_begin = 0;                  // from here on, the drafter's KV has been written
  int window = 2048;                      // how many positions before the anchor it may look at
  int max_tokens = 0;                     // at most so many are drafted
  double least_survival = 0.0;            // a draft may end behind a token that is less likely to survive
  DraftSampler* sampler = nullptr;
  int bucket = 0;  // kind of task: what is learnt of one is not held against the others

  std::vector<DraftToken> draft = {};  // the answer; survival never rises
  bool broken = false;                 // the answer held NaN
};

// One position that the target has computed.
struct ComputedRow {
  uint8_t* block;  // the KV block that holds the position
  int position;
  int row;  // of StepOutput::hidden
};

struct VerifiedDraft {
  uint64_t sequence;
  std::span<const DraftToken> draft;  // what was verified, maybe less than was proposed
  int accepted;                       // of it
  int bucket = 0;                     // as in the request
};

class Drafter {
 public:
  virtual ~Drafter() = default;

  virtual std::string_view name() const = 0;
  // Tokens of one draft at most.
  virtual int max_tokens() const = 0;

  // Whether a proposal takes time that the plan has to weigh.
  virtual bool costs_time() const { return false; }

  // The layers whose hidden states `computed` needs, as StepInput::hidden_layers; empty: none, and no KV either.
  virtual std::span<const int> hidden_layers() const { return {}; }
  // What it keeps in every KV block.
  virtual std::vector<KvLayout> kv_layouts() const { return {}; }

  // The target has computed these positions, whose tokens are final. `hidden` [hidden_layers, hidden_rows, hidden] is
  // StepOutput's. Also for sequences that do not draft, so that whoever takes over their blocks can. The KV may be
  // written later: with the next proposal, or settle().
  virtual void computed(std::span<const ComputedRow> rows, const float* hidden, int hidden_rows) {}
  // Writes what is still to be written, before blocks change hands: are shared, copied, cached or given back.
  virtual void settle() {}

  // Fills `draft` of each request. What one request gets does not depend on the others (row law).
  virtual void propose(std::span<DraftRequest* const> requests) = 0;

  // What became of a draft of this drafter.
  virtual void verified(const VerifiedDraft& result) {}

  // The sequence has ended.
  virtual void release(uint64_t sequence) {}
};

}  // namespace dspark
