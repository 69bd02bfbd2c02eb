// See draft_loss.h.
#include "train/draft_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampler.h"

namespace dspark {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Of one prediction.
struct SlotLoss {
  float cross_entropy = 0, l1 = 0, soft = 0, confidence = 0;
  bool agrees = false;
};

// The drafter's choice by the token law, as a target id; -1 where none can be drawn.
class Chooser {
 public:
  Chooser(const Ops& ops, const DraftVocabulary& vocabulary) : ops_(ops), vocabulary_(vocabulary), scratch_(ops) {}

  int32_t choose(const float* logits, double temperature, uint64_t seed, uint64_t position) {
    const int64_t rows = vocabulary_.rows();
    if (temperature <= 0) return vocabulary_.id(std::max_element(logits, logits + rows) - logits);
    full_.assign(static_cast<size_t>(vocabulary_.target_size), kNever);
    for (int64_t row = 0; row < rows; ++row) full_[static_cast<size_t>(vocabulary_.id(row))] = logits[row];
    SamplingParams params;
    params.temperature = temperature;
    params.seed = seed;
    const Result<Sampler> sampler = Sampler::create(ops_, params, vocabulary_.target_size, {});
    if (!sampler.ok()) return -1;
    const Result<Draw> draw = sampler->draw({full_.data(), position}, TokenHistory(params, {}), scratch_);
    return draw.ok() ? draw->token : -1;
  }

 private:
  const Ops& ops_;
  const DraftVocabulary& vocabulary_;
  DrawScratch scratch_;
  std::vector<float> full_;
};

// Logits to probabilities in place; returns log of the sum of exponentials, so that log p = logit - it.
float softmax(int64_t n, float* x) {
  const float most = *std::max_element(x, x + n);
  float sum = 0.0f;
  for (int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - most);
  const float inverse = 1.0f / sum;
  for (int64_t i = 0; i < n; ++i) x[i] *= inverse;
  return most + std::log(sum);
}

// Losses of one prediction; its logits become their gradient times `scale`.
SlotLoss slot_loss(const LossOptions& options, const TrainBatch& batch, int64_t slot, int64_t rows, float scale,
                   float* logits) {
  SlotLoss out;
  const int32_t* tokens = batch.target_rows.data() + slot * kTargetTokens;
  const float* target = batch.target_probabilities.data() + slot * kTargetTokens;
  const int32_t label = batch.labels_drafted[static_cast<size_t>(slot)];
  float label_logit = 0.0f, expected_logit = 0.0f, mass = 0.0f;
  if (label >= 0) label_logit = logits[label];
  for (int i = 0; i < kTargetTokens; ++i) {
    if (tokens[i] < 0) continue;
    expected_logit += target[i] * logits[tokens[i]];
    mass += target[i];
  }
  const float log_sum = softmax(rows, logits);
  float* p = logits;
  if (label >= 0) out.cross_entropy = log_sum - label_logit;
  out.soft = mass * log_sum - expected_logit;
  // |p - P| has slope sign(p - P) in p, which is 1 wherever the target has nothing.
  float along = 1.0f;  // sum of p times the slopes
  out.l1 = 1.0f;
  for (int i = 0; i < kTargetTokens; ++i) {
    if (tokens[i] < 0) continue;
    const float mine = p[tokens[i]], apart = mine - target[i];
    out.l1 += std::abs(apart) - mine;
    along += ((apart > 0 ? 1.0f : apart < 0 ? -1.0f : 0.0f) - 1.0f) * mine;
  }
  const auto ce = static_cast<float>(label >= 0 ? options.cross_entropy : 0.0);
  const auto l1 = static_cast<float>(options.l1), soft = static_cast<float>(options.soft);
  std::array<float, kTargetTokens> kept;
  for (int i = 0; i < kTargetTokens; ++i) kept[static_cast<size_t>(i)] = tokens[i] < 0 ? 0.0f : p[tokens[i]];
  const float common = ce + soft * mass + l1 * (1.0f - along);
  for (int64_t i = 0; i < rows; ++i) p[i] *= common * scale;
  if (label >= 0) p[label] -= ce * scale;
  for (int i = 0; i < kTargetTokens; ++i) {
    if (tokens[i] < 0) continue;
    const float mine = kept[static_cast<size_t>(i)], apart = mine - target[i];
    const float slope = apart > 0 ? 1.0f : apart < 0 ? -1.0f : 0.0f;
    p[tokens[i]] += (l1 * (slope - 1.0f) * mine - soft * target[i]) * scale;
  }
  return out;
}

std::vector<float> slot_weights(const TrainBatch& batch, double decay) {
  std::vector<float> weights(static_cast<size_t>(batch.slots()));
  for (const TrainBlock& block : batch.blocks) {
    for (int k = 0; k < block.slots; ++k) {
      weights[static_cast<size_t>(block.first_slot + k)] = static_cast<float>(decay > 0 ? std::exp(-k / decay) : 1.0);
    }
  }
  return weights;
}

}  // namespace

int32_t DraftVocabulary::row(int32_t id) const {
  if (ids.empty()) return id;
  const auto at = std::lower_bound(ids.begin(), ids.end(), id);
  return at != ids.end() && *at == id ? static_cast<int32_t>(at - ids.begin()) : -1;
}

void LossSums::add(const LossSums& other) {
  weight += other.weight;
  cross_entropy += other.cross_entropy;
  l1 += other.l1;
  soft += other.soft;
  confidence += other.confidence;
  blocks += other.blocks;
  for (size_t k = 0; k < reached.size(); ++k) {
    reached[k] += other.reached[k];
    accepted[k] += other.accepted[k];
  }
}

double LossSums::total(const LossOptions& options) const {
  return weight == 0 ? 0.0
                     : (options.cross_entropy * cross_entropy + options.l1 * l1 + options.soft * soft +
                        options.confidence * confidence) /
                           weight;
}

double LossSums::tau() const {
  double taken = 0;
  for (const int64_t count : accepted) taken += static_cast<double>(count);
  return blocks == 0 ? 1.0 : 1.0 + taken / static_cast<double>(blocks);
}

LossSums draft_loss(ThreadPool& pool, const Ops& ops, const DraftVocabulary& vocabulary, const TrainBatch& batch,
                    const LossOptions& options, float* logits, float* confidences) {
  const int64_t slots = batch.slots(), rows = vocabulary.rows();
  const std::vector<float> weights = slot_weights(batch, options.decay);
  LossSums sums;
  for (const float weight : weights) sums.weight += weight;
  std::vector<SlotLoss> losses(static_cast<size_t>(slots));
  constexpr int64_t kSlots = 8;
  pool.run(static_cast<int>((slots + kSlots - 1) / kSlots), [&](int task) {
    Chooser chooser(ops, vocabulary);
    for (int64_t slot = task * kSlots; slot < std::min(slots, (task + 1) * kSlots); ++slot) {
      const auto i = static_cast<size_t>(slot);
      const float scale = static_cast<float>(weights[i] / sums.weight);
      const auto position = static_cast<uint64_t>(batch.positions[i]) + 1;
      const int32_t choice = chooser.choose(logits + slot * rows, batch.temperatures[i], batch.seeds[i], position);
      losses[i] = slot_loss(options, batch, slot, rows, scale, logits + slot * rows);
      losses[i].agrees = choice == batch.labels[i];
      if (confidences == nullptr) continue;
      const float c = confidences[slot], label = losses[i].agrees ? 1.0f : 0.0f;
      losses[i].confidence = std::max(c, 0.0f) + std::log1p(std::exp(-std::abs(c))) - label * c;
      confidences[slot] = static_cast<float>(options.confidence) * scale * (1.0f / (1.0f + std::exp(-c)) - label);
    }
  });
  for (size_t i = 0; i < losses.size(); ++i) {
    const double weight = weights[i];
    sums.cross_entropy += weight * losses[i].cross_entropy;
    sums.l1 += weight * losses[i].l1;
    sums.soft += weight * losses[i].soft;
    sums.confidence += weight * losses[i].confidence;
  }
  for (const TrainBlock& block : batch.blocks) {
    ++sums.blocks;
    for (size_t k = 0; k < static_cast<size_t>(block.slots); ++k) {
      ++sums.reached[k];
      if (!losses[static_cast<size_t>(block.first_slot) + k].agrees) break;
      ++sums.accepted[k];
    }
  }
  return sums;
}

}  // namespace dspark
