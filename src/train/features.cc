// See features.h.
#include "train/features.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/half.h"

namespace dspark {
namespace {

constexpr int kChunk = 128;  // rows in a step

// The likeliest tokens of a row of logits, and their probabilities.
void keep_likeliest(const Ops& ops, const float* logits, int64_t vocab, int32_t* tokens, uint16_t* probabilities) {
  std::vector<float> maxima(static_cast<size_t>(survey_size(vocab)));
  std::fill_n(tokens, kTargetTokens, -1);
  std::fill_n(probabilities, kTargetTokens, uint16_t{0});
  if (!ops.survey(logits, vocab, maxima.data())) return;
  const float max = *std::max_element(maxima.begin(), maxima.end());
  const int64_t sum = ops.exp_sum(logits, maxima.data(), vocab, max, 1.0f, -std::numeric_limits<float>::infinity());
  const double inverse = std::ldexp(1.0, kWeightBits) / static_cast<double>(sum);
  constexpr float kReach = 12.0f;  // below e^-12 of the likeliest, halves and losses see nothing
  std::vector<int32_t> near;
  for (int32_t token = 0; token < vocab; ++token) {
    if (logits[token] > max - kReach) near.push_back(token);
  }
  const auto likelier = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  const auto kept = std::min<size_t>(near.size(), kTargetTokens);
  std::partial_sort(near.begin(), near.begin() + static_cast<int64_t>(kept), near.end(), likelier);
  for (size_t i = 0; i < kept; ++i) {
    tokens[i] = near[i];
    probabilities[i] =
        half_from_float(static_cast<float>(std::exp(static_cast<double>(logits[near[i]] - max)) * inverse));
  }
}

}  // namespace

size_t TargetFeatures::bytes() const {
  return hidden.size() * sizeof(hidden[0]) + tokens.size() * sizeof(tokens[0]) +
         probabilities.size() * sizeof(probabilities[0]);
}

Result<TargetFeatures> compute_features(Runner& runner, std::span<const int> layers,
                                        const TrainConversation& conversation) {
  TargetFeatures out;
  out.positions = static_cast<int>(conversation.tokens.size()) - 1;
  out.first_prediction = std::min(conversation.answers.front()[0], out.positions);
  const auto hidden = static_cast<size_t>(runner.config().hidden), width = hidden * layers.size();
  out.hidden.resize(static_cast<size_t>(out.positions) * width);
  const auto predictions = static_cast<size_t>(out.positions - out.first_prediction);
  out.tokens.resize(predictions * kTargetTokens);
  out.probabilities.resize(out.tokens.size());
  SequenceKv sequence = runner.new_sequence();
  std::vector<RunRow> rows;
  for (int first = 0; first < out.positions; first += kChunk) {
    const int end = std::min(out.positions, first + kChunk);
    rows.clear();
    for (int i = first; i < end; ++i) {
      rows.push_back({&sequence, conversation.tokens[static_cast<size_t>(i)], i >= out.first_prediction});
    }
    DSPARK_TRY(const StepOutput step, runner.run(rows, layers));
    const size_t count = rows.size();
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      for (size_t row = 0; row < count; ++row) {
        const float* from = step.hidden + (layer * count + row) * hidden;
        uint16_t* to = out.hidden.data() + (static_cast<size_t>(first) + row) * width + layer * hidden;
        std::transform(from, from + hidden, to, [](float x) { return half_from_float(x); });
      }
    }
    const int wanted = std::max(first, out.first_prediction);
    const auto vocab = static_cast<int64_t>(runner.config().vocab);
    if (wanted >= end) continue;
    runner.pool().run(end - wanted, [&](int i) {
      const auto at = static_cast<size_t>(wanted - out.first_prediction + i) * kTargetTokens;
      keep_likeliest(runner.ops(), step.logits + i * vocab, vocab, out.tokens.data() + at,
                     out.probabilities.data() + at);
    });
  }
  return out;
}

}  // namespace dspark
