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

// Below max - kWeightlessLogits * T a weight is less than half a unit, hence 0: e^-29.9 < 2^-(kWeightBits + 1).
constexpr double kWeightlessLogits = 29.9;

// Sizes of lists that are cheap to sort.
constexpr int64_t kFirstGuess = 64;
constexpr int64_t kListSize = 1024;

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

  // No token below it weighs anything.
  float weightless() const {
    return std::nextafter(static_cast<float>(max - kWeightlessLogits * temperature), -kInfinity);
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
float TokenFilter::maxima_rank(const Survey& survey, int64_t count) {
  const int64_t size = survey_size(survey.vocab);
  if (count > size) return -kInfinity;
  ranked_.ensure(static_cast<size_t>(size));
  float* ranked = ranked_.data();
  // Merges groups while many more than `count` would be left: selecting among few is what makes this cheap.
  int64_t groups = std::min(size, std::max<int64_t>(8 * count, 256));
  std::copy_n(survey.maxima, groups, ranked);
  for (int64_t i = groups, j = 0; i < size; ++i, j = j + 1 == groups ? 0 : j + 1) {
    ranked[j] = std::max(ranked[j], survey.maxima[i]);
  }
  std::nth_element(ranked, ranked + count - 1, ranked + groups, std::greater<>());
  return ranked[count - 1];
}

std::span<RankKey> TokenFilter::top_unsorted(const Survey& survey, int64_t count) {
  const std::span<RankKey> keys = collect(survey, maxima_rank(survey, count), kInfinity);
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

// Adds weights to *sum in order until it reaches `target`: then the token is the cut.
bool TokenFilter::walk(std::span<RankKey> keys, const Weighing& weighing, int64_t target, int64_t* sum, Cut* cut) {
  constexpr size_t kBatch = 64;
  std::sort(keys.begin(), keys.end(), std::greater<>());
  for (size_t begin = 0; begin < keys.size(); begin += kBatch) {
    const auto batch = keys.subspan(begin, std::min(kBatch, keys.size() - begin));
    float logits[kBatch];
    int64_t weights[kBatch];
    std::transform(batch.begin(), batch.end(), logits, key_logit);
    ops_->exp_weights(logits, static_cast<int64_t>(batch.size()), weighing.max, weighing.inverse_t, weights);
    for (size_t i = 0; i < batch.size(); ++i) {
      *sum += weights[i];
      if (*sum < target) continue;
      *cut = {key_logit(batch[i]), key_token(batch[i])};
      return true;
    }
  }
  return false;
}

Cut TokenFilter::top_p_of_all(const Survey& survey, const Weighing& weighing, double top_p) {
  const auto sum_from = [&](float floor) {
    return ops_->exp_sum(survey.logits, survey.maxima, survey.vocab, weighing.max, weighing.inverse_t, floor);
  };
  float low = weighing.weightless(), high = kInfinity;
  int64_t sum_low = sum_from(low), sum_high = 0;
  const int64_t target = share(sum_low, top_p);
  Cut cut;
  const float guess = maxima_rank(survey, kFirstGuess);
  if (guess > low) {
    if (walk(collect(survey, guess, high), weighing, target, &sum_high, &cut)) return cut;
    high = guess;
  }
  // The cut is in [low, high): sum_high < target <= sum_low. Halve that until it holds few tokens: their weights are
  // at least that of `low`.
  while (survey.vocab > kListSize) {
    int64_t lowest = 0;
    ops_->exp_weights(&low, 1, weighing.max, weighing.inverse_t, &lowest);
    if ((sum_low - sum_high) / kListSize < lowest) break;
    const float middle = std::midpoint(low, std::min(high, weighing.max));
    if (!(low < middle && middle < high)) break;
    const int64_t sum = sum_from(middle);
    (sum >= target ? low : high) = middle;
    (sum >= target ? sum_low : sum_high) = sum;
  }
  const bool found = walk(collect(survey, low, high), weighing, target, &sum_high, &cut);
  DSPARK_CHECK(found, "top-p: weights of [{}, {}) end at {} of {}", low, high, sum_high, target);
  return cut;
}

Cut TokenFilter::cut(const SamplingParams& params, const Survey& survey) {
  const double t = params.temperature;
  const Weighing weighing{survey.max, inverse_temperature(t), t};
  Cut cut;
  const bool some = params.top_k > 0 && params.top_k < survey.vocab;
  if (some) {
    const std::span<RankKey> keys = top_unsorted(survey, params.top_k);
    if (params.top_p < 1.0) {
      int64_t all = 0, sum = 0;
      walk(keys, weighing, std::numeric_limits<int64_t>::max(), &all, &cut);
      walk(keys, weighing, share(all, params.top_p), &sum, &cut);
    } else {
      const RankKey last = *std::min_element(keys.begin(), keys.end());
      cut = {key_logit(last), key_token(last)};
    }
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
