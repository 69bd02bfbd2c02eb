// Draws a request's draft tokens by the token law, so that drafter and target agree as often as they can: the same
// filters, penalties, min_tokens and noise, of the same positions. Workers, one call at a time for each object.
#pragma once

#include <functional>
#include <span>
#include <utility>

#include "draft/drafter.h"
#include "engine/sampler.h"

namespace dspark {

class RequestDraftSampler : public DraftSampler {
 public:
  // The tokens that a grammar lets come behind the drafted ones, as DrawRow::keep; null: any.
  using Keep = std::function<const uint32_t*(std::span<const int32_t> drafted)>;

  // `sampler` and `history` are the request's, the anchor included; they must outlive this and not change meanwhile.
  RequestDraftSampler(const Ops& ops, const Sampler& sampler, const TokenHistory& history, Keep keep = nullptr)
      : ops_(ops), sampler_(sampler), history_(history), keep_(std::move(keep)) {}

  int32_t draw(const float* logits, int position, std::span<const int32_t> drafted) override;

 private:
  const Ops& ops_;
  const Sampler& sampler_;
  const TokenHistory& history_;
  Keep keep_;
};

}  // namespace dspark
