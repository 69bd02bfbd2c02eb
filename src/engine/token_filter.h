// What top-k, top-p and min-p keep of a vocabulary (docs/sampling.md). All three keep a prefix of the tokens in one
// order, logit descending and then id ascending, so that what is kept is described by the last token of the prefix.
// Workers only, each with a scratch of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "base/buffer.h"
#include "engine/sampling_params.h"
#include "kernels/ops.h"

namespace dspark {

// The last token that is kept.
struct Cut {
  float logit = -std::numeric_limits<float>::infinity();
  int32_t token = std::numeric_limits<int32_t>::max();

  bool keeps(float other_logit, int32_t other) const {
    return other_logit > logit || (other_logit == logit && other <= token);
  }
};

// Logits with what the reductions need to know of them.
struct Survey {
  const float* logits;  // [vocab], no NaN
  const float* maxima;  // Ops::survey
  int64_t vocab;
  float max;  // finite
};

// Tokens as integers that stand in the order above, first the largest.
using RankKey = uint64_t;
RankKey rank_key(float logit, int32_t token);
float key_logit(RankKey key);  // -0 is 0
int32_t key_token(RankKey key);

class TokenFilter {
 public:
  explicit TokenFilter(const Ops& ops) : ops_(&ops) {}

  // What `params` keeps at its temperature, which is above 0: top-k, then top-p among those, then min-p.
  Cut cut(const SamplingParams& params, const Survey& survey);

  // The first `count` finite tokens in order, or all if they are fewer. Valid until the next call.
  std::span<const RankKey> top(const Survey& survey, int64_t count);

 private:
  struct Weighing;

  std::span<RankKey> collect(const Survey& survey, float floor, float ceiling);
  std::span<RankKey> top_unsorted(const Survey& survey, int64_t count);
  float floor_of(const Survey& survey, int64_t count);
  float rough_floor_of(const Survey& survey, int64_t count);
  template <class Visit>
  void weigh(std::span<const RankKey> keys, const Weighing& weighing, Visit visit) const;
  int64_t sum(std::span<const RankKey> keys, const Weighing& weighing) const;
  std::optional<Cut> reach(std::span<RankKey> keys, const Weighing& weighing, int64_t before, int64_t target) const;
  static float probe(float low, float high, double part_above);
  Cut top_p_of_all(const Survey& survey, const Weighing& weighing, double top_p);

  const Ops* ops_;
  Buffer<int32_t> ids_;   // [vocab]
  Buffer<RankKey> keys_;  // [vocab]
  Buffer<float> ranked_;  // [survey_size]
};

// 1 / temperature as the reductions take it: at most 1e30, so that it times 0 is 0.
float inverse_temperature(double temperature);

}  // namespace dspark
