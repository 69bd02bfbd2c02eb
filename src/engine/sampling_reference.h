// For tests: the sampling rules of docs/sampling.md once more, in double, by sorting everything. Written from the page,
// not from the code under test, and shares none of it but the noise's words.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "base/noise.h"
#include "engine/sampling_params.h"

namespace dspark {

struct ReferenceHistory {
  std::vector<int32_t> prompt;
  std::vector<int32_t> output;  // drafted tokens included
};

struct ReferenceKept {
  std::vector<int32_t> order;         // kept tokens, likeliest first
  std::vector<double> probabilities;  // [vocab], 0 where not kept
  bool near_edge = false;             // top-p or min-p were decided by less than rounding may move
};

inline std::vector<double> reference_edit(const SamplingParams& params, std::span<const float> logits,
                                          const ReferenceHistory& history) {
  std::vector<double> out(logits.begin(), logits.end());
  std::vector<int32_t> window = history.prompt;
  window.insert(window.end(), history.output.begin(), history.output.end());
  if (params.repetition_window >= 0 && static_cast<int64_t>(window.size()) > params.repetition_window) {
    window.erase(window.begin(), window.end() - params.repetition_window);
  }
  for (size_t v = 0; v < out.size(); ++v) {
    const int32_t token = static_cast<int32_t>(v);
    if (std::find(window.begin(), window.end(), token) != window.end()) {
      out[v] = out[v] > 0 ? out[v] / params.repetition_penalty : out[v] * params.repetition_penalty;
    }
    const auto times = std::count(history.output.begin(), history.output.end(), token);
    if (times > 0) out[v] -= static_cast<double>(times) * params.frequency_penalty + params.presence_penalty;
  }
  for (const auto& [token, bias] : params.logit_bias) out[static_cast<size_t>(token)] += static_cast<double>(bias);
  return out;
}

// Temperature above 0.
inline ReferenceKept reference_keep(const SamplingParams& params, const std::vector<double>& logits) {
  const size_t vocab = logits.size();
  std::vector<int32_t> order(vocab);
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](int32_t token) { return logits[static_cast<size_t>(token)]; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  const double max = logit(order.front());
  const auto weight = [&](int32_t token) { return std::exp((logit(token) - max) / params.temperature); };
  const auto total = [&] {
    double sum = 0;
    for (const int32_t token : order) sum += weight(token);
    return sum;
  };
  std::erase_if(order, [&](int32_t token) { return std::isinf(logit(token)); });
  if (params.top_k > 0 && static_cast<int64_t>(order.size()) > params.top_k) {
    order.resize(static_cast<size_t>(params.top_k));
  }
  ReferenceKept out;
  if (params.top_p < 1) {
    const double all = total();
    double sum = 0;
    size_t count = 0;
    while (count < order.size()) {
      sum += weight(order[count++]) / all;
      out.near_edge |= std::fabs(sum - params.top_p) < 1e-5;
      if (sum >= params.top_p) break;
    }
    order.resize(count);
  }
  std::erase_if(order, [&](int32_t token) {
    out.near_edge |= std::fabs(weight(token) - params.min_p) < 1e-5 * params.min_p;
    return weight(token) < params.min_p;
  });
  out.order = order;
  out.probabilities.resize(vocab);
  const double all = total();
  for (const int32_t token : order) out.probabilities[static_cast<size_t>(token)] = weight(token) / all;
  return out;
}

// The token law over what is kept; `gap` is how far the best score is ahead.
inline int32_t reference_draw(const SamplingParams& params, const std::vector<double>& logits,
                              std::span<const int32_t> kept, uint64_t position, double* gap) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double best = -INFINITY, second = -INFINITY;
  int32_t winner = -1;
  for (const int32_t token : kept) {
    const double w = (noise_word({params.seed, position}, token) + 0.5) * 0x1p-32;
    const double score = (logits[static_cast<size_t>(token)] - max) / params.temperature - std::log(-std::log1p(-w));
    if (score > best) {
      second = best;
      best = score;
      winner = token;
    } else {
      second = std::max(second, score);
    }
  }
  *gap = best - second;
  return winner;
}

// Pearson's statistic of `counts` against `probabilities`, merging what is expected fewer than 5 times, and whether it
// is below the quantile that a right sampler exceeds once in a million (Wilson-Hilferty).
inline bool fits(const std::vector<double>& probabilities, const std::vector<int64_t>& counts) {
  const double draws = static_cast<double>(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
  double statistic = 0, rest_expected = 0, rest_seen = 0;
  int cells = 0;
  const auto add = [&](double expected, double seen) {
    statistic += (seen - expected) * (seen - expected) / expected;
    ++cells;
  };
  for (size_t v = 0; v < probabilities.size(); ++v) {
    const double expected = probabilities[v] * draws, seen = static_cast<double>(counts[v]);
    if (expected == 0 && seen > 0) return false;
    if (expected >= 5) {
      add(expected, seen);
    } else {
      rest_expected += expected, rest_seen += seen;
    }
  }
  if (rest_expected >= 5) add(rest_expected, rest_seen);
  if (cells < 2) return true;
  const double freedom = cells - 1, spread = 2 / (9 * freedom);
  const double quantile = freedom * std::pow(1 - spread + 4.7534 * std::sqrt(spread), 3);
  return statistic < quantile;
}

}  // namespace dspark
