// See draft_sampler.h.
#include "engine/draft_sampler.h"

namespace dspark {

int32_t RequestDraftSampler::draw(const float* logits, int position, std::span<const int32_t> drafted) {
  // A worker's; which instruction set it was made for does not change a bit.
  thread_local DrawScratch scratch(ops_);
  const DrawRow row = {.logits = logits,
                       .position = static_cast<uint64_t>(position),
                       .drafted = drafted,
                       .keep = keep_ ? keep_(drafted) : nullptr};
  const Result<Draw> draw = sampler_.draw(row, history_, scratch);
  return draw.ok() ? draw->token : -1;
}

}  // namespace dspark
