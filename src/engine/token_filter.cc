// The filters: selection among the few tokens that a threshold leaves, found from the survey's maxima.
#include "engine/token_filter.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/exact_math.h"

namespace dspark {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// How many of the likeliest tokens top-p looks at before the others, and how many it selects among in the end.
constexpr int64_t kFewTokens = 64, kManyTokens = 1024;
constexpr int64_t kListSize = 2048;

// The part p of a sum of weights, at least one unit.
int64_t share(int64_t sum, double p) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(p * static_cast<double>(sum))), 1, sum);
}

}  // namespace

float inverse_temperature(double temperature) { return static_cast<float>(std::min(1.0 / temperature, 1e30)); }

// The bits of a float, with the magnitude's inverted for negative ones, ascend with its value.
RankKey rank_key(float logit, int32_t token) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);
  const uint32_t ascending = bits ^ ((bits >> 31) != 0 ? 0xFFFFFFFFu : 0x80000000u);
  return RankKey{ascending} << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(token));
}
float key_logit(RankKey key) {
  const uint32_t ascending = static_cast<uint32_t>(key >> 32);
  return std::bit_cast<float>(ascending ^ ((ascending >> 31) != 0 ? 0x80000000u : 0xFFFFFFFFu));
}
int32_t key_token(RankKey key) { return static_cast<int32_t>(0xFFFFFFFFu - static_cast<uint32_t>(key)); }

// How likely tokens are: integer weights (Ops::exp_sum), whose sums are exact.
struct TokenFilter::Weighing {
  float max;
  float inverse_t;
  double temperature;

  // Below it a weight is less than half a unit, hence 0: e^-29.9 < 2^-(kWeightBits + 1).
  float weightless() const { return below(-29.9); }

  // A logit that top-p's last token reaches, if it leaves out at most `rest` of the weight. The tokens behind the last
  // one are no heavier than it, so `vocab` times its weight is more than `rest`.
  float lower_bound(int64_t rest, int64_t vocab) const {
    const double least = static_cast<double>(rest) / static_cast<double>(vocab) * (1.0 / (int64_t{1} << kWeightBits));
    return std::max(weightless(), below(exact_log(least) - 0x1p-10));  // weights are exact to 2^-16
  }

 private:
  float below(double scaled) const {
    return std::nextafter(static_cast<float>(max + scaled * temperature), -kInfinity);
  }
};

// The finite tokens with floor <= logit < ceiling, by ascending id.
std::span<RankKey> TokenFilter::collect(const Survey& survey, float floor, float ceiling) {
  ids_.ensure(static_cast<size_t>(survey.vocab));
  keys_.ensure(static_cast<size_t>(survey.vocab));
  const int64_t count = ops_->collect(survey.logits, survey.maxima, survey.vocab, floor, ceiling, ids_.data());
  for (int64_t i = 0; i < count; ++i) {
    const int32_t token = ids_.data()[i];
    keys_.data()[i] = rank_key(survey.logits[token], token);
  }
  return {keys_.data(), static_cast<size_t>(count)};
}

// A logit that at least `count` tokens reach, and usually few more: the count-th of the maxima of disjoint groups.
// -infinity if there are fewer groups.
float TokenFilter::floor_of(const Survey& survey, int64_t count) {
  const int64_t size = survey_size(survey.vocab);
  if (count > size) return -kInfinity;
  ranked_.ensure(static_cast<size_t>(size));
  float* ranked = ranked_.data();
  // Merges groups while many more than `count` would be left: selecting among few is what makes this cheap.
  const int64_t groups = std::min(size, std::max<int64_t>(8 * count, 256));
  std::copy_n(survey.maxima, groups, ranked);
  for (int64_t begin = groups; begin < size; begin += groups) {
    const int64_t end = std::min(groups, size - begin);
    for (int64_t i = 0; i < end; ++i) ranked[i] = std::max(ranked[i], survey.maxima[begin + i]);
  }
  std::nth_element(ranked, ranked + count - 1, ranked + groups, std::greater<>());
  return ranked[count - 1];
}

// A logit that roughly `count` tokens reach: the same from a sample of the maxima, without the promise.
float TokenFilter::rough_floor_of(const Survey& survey, int64_t count) {
  constexpr int64_t kStride = 9;
  const int64_t size = survey_size(survey.vocab), rank = count / kStride;
  if (rank >= size / kStride) return -kInfinity;
  ranked_.ensure(static_cast<size_t>(size));
  float* ranked = ranked_.data();
  int64_t sampled = 0;
  for (int64_t i = 0; i < size; i += kStride) ranked[sampled++] = survey.maxima[i];
  std::nth_element(ranked, ranked + rank, ranked + sampled, std::greater<>());
  return ranked[rank];
}

std::span<RankKey> TokenFilter::top_unsorted(const Survey& survey, int64_t count) {
  const std::span<RankKey> keys = collect(survey, floor_of(survey, count), kInfinity);
  if (static_cast<int64_t>(keys.size()) <= count) return keys;
  std::nth_element(keys.begin(), keys.begin() + (count - 1), keys.end(), std::greater<>());
  return keys.first(static_cast<size_t>(count));
}

std::span<const RankKey> TokenFilter::top(const Survey& survey, int64_t count) {
  if (count == 0) return {};
  const std::span<RankKey> keys = top_unsorted(survey, count);
  std::sort(keys.begin(), keys.end(), std::greater<>());
  return keys;
}

// Calls `visit` with each key's weight, in the order of `keys`, until it returns false.
template <class Visit>
void TokenFilter::weigh(std::span<const RankKey> keys, const Weighing& weighing, Visit visit) const {
  constexpr size_t kBatch = 64;
  for (size_t begin = 0; begin < keys.size(); begin += kBatch) {
    const auto batch = keys.subspan(begin, std::min(kBatch, keys.size() - begin));
    float logits[kBatch];
    int64_t weights[kBatch];
    std::transform(batch.begin(), batch.end(), logits, key_logit);
    ops_->exp_weights(logits, static_cast<int64_t>(batch.size()), weighing.max, weighing.inverse_t, weights);
    for (size_t i = 0; i < batch.size(); ++i) {
      if (!visit(batch[i], weights[i])) return;
    }
  }
}

int64_t TokenFilter::sum(std::span<const RankKey> keys, const Weighing& weighing) const {
  int64_t out = 0;
  weigh(keys, weighing, [&](RankKey, int64_t weight) {
    out += weight;
    return true;
  });
  return out;
}

// The key at which weights, added to `before` in order, reach `target`, if they do. Halves the list, keeping the half
// that holds it, before it sorts.
std::optional<Cut> TokenFilter::reach(std::span<RankKey> keys, const Weighing& weighing, int64_t before,
                                      int64_t target) const {
  constexpr size_t kSorted = 32;
  while (keys.size() > kSorted) {
    const size_t half = keys.size() / 2;
    std::nth_element(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(half), keys.end(), std::greater<>());
    const int64_t upper = sum(keys.first(half), weighing);
    const bool inside = before + upper >= target;
    if (!inside) before += upper;
    keys = inside ? keys.first(half) : keys.subspan(half);
  }
  std::sort(keys.begin(), keys.end(), std::greater<>());
  std::optional<Cut> out;
  weigh(keys, weighing, [&](RankKey key, int64_t weight) {
    before += weight;
    if (before >= target) out = Cut{key_logit(key), key_token(key)};
    return !out.has_value();
  });
  return out;
}

// A logit in (low, high), where the sum from low on is at or above the target and the sum from high on below it: where
// the target would be if weight were spread evenly, and further on the side of what is left, so that the bracket
// shrinks from both ends.
float TokenFilter::probe(float low, float high, double part_above) {
  const double width = static_cast<double>(high) - static_cast<double>(low);
  const double place = part_above + (part_above > 0.5 ? -0.12 : 0.12);
  return static_cast<float>(static_cast<double>(high) - width * std::clamp(place, 0.05, 0.95));
}

Cut TokenFilter::top_p_of_all(const Survey& survey, const Weighing& weighing, double top_p) {
  const auto sum_from = [&](float floor) {
    return ops_->exp_sum(survey.logits, survey.maxima, survey.vocab, weighing.max, weighing.inverse_t, floor);
  };
  // The cut is in [low, high). sum_high, from high on, is below the target; sum_low is at least the sum from low on.
  int64_t sum_low = sum_from(weighing.weightless()), sum_high = 0;
  const int64_t target = share(sum_low, top_p);
  float low = weighing.lower_bound(sum_low - target, survey.vocab), high = kInfinity;
  for (const float floor : {floor_of(survey, kFewTokens), rough_floor_of(survey, kManyTokens)}) {
    if (!(low < floor && floor < high)) continue;
    const std::span<RankKey> keys = collect(survey, floor, high);
    const int64_t found = sum(keys, weighing);
    if (sum_high + found >= target) return *reach(keys, weighing, sum_high, target);
    sum_high += found;
    high = floor;
  }
  while (survey.vocab > kListSize) {
    // The tokens of the bracket weigh at least as much as one at `low`.
    int64_t lightest = 0;
    ops_->exp_weights(&low, 1, weighing.max, weighing.inverse_t, &lightest);
    if ((sum_low - sum_high) / kListSize < lightest) break;
    const double above = static_cast<double>(target - sum_high) / static_cast<double>(sum_low - sum_high);
    const float middle = probe(low, std::min(high, weighing.max), above);
    if (!(low < middle && middle < high)) break;
    const int64_t sum = sum_from(middle);
    (sum >= target ? low : high) = middle;
    (sum >= target ? sum_low : sum_high) = sum;
  }
  const std::optional<Cut> cut = reach(collect(survey, low, high), weighing, sum_high, target);
  DSPARK_CHECK(cut.has_value(), "top-p: the weights of [{}, {}) do not reach {}", low, high, target);
  return *cut;
}

Cut TokenFilter::cut(const SamplingParams& params, const Survey& survey) {
  const double t = params.temperature;
  const Weighing weighing{survey.max, inverse_temperature(t), t};
  Cut cut;
  const bool some = params.top_k > 0 && params.top_k < survey.vocab;
  if (some) {
    const std::span<RankKey> keys = top_unsorted(survey, params.top_k);
    const int64_t target = params.top_p < 1.0 ? share(sum(keys, weighing), params.top_p) : 0;
    const RankKey last = *std::min_element(keys.begin(), keys.end());
    cut = target > 0 ? *reach(keys, weighing, 0, target) : Cut{key_logit(last), key_token(last)};
  } else if (params.top_p < 1.0) {
    cut = top_p_of_all(survey, weighing, params.top_p);
  }
  if (params.min_p > 0.0) {
    const float floor = static_cast<float>(survey.max + t * exact_log(params.min_p));
    if (floor > cut.logit) cut = {floor, std::numeric_limits<int32_t>::max()};
  }
  return cut;
}

}  // namespace dspark
