// See initialise.h.
#include "train/initialise.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/bigram_factors.h"
#include "train/prompt.h"

namespace dspark {
namespace {

// Rows and columns that both have.
void copy_matrix(const PackedMatrix& from, Parameter* to) {
  const int64_t rows = std::min(from.rows(), to->shape[0]), columns = std::min(from.k(), to->shape[1]);
  std::vector<float> row(static_cast<size_t>(from.k()));
  for (int64_t r = 0; r < rows; ++r) {
    from.dequantise_row(r, row.data());
    std::copy_n(row.begin(), columns, to->value.begin() + r * to->shape[1]);
  }
}

void copy_vector(const NormWeights& from, Parameter* to) {
  if (from.empty()) return;
  std::copy_n(from.data(), to->size(), to->value.begin());
}

// The square block of `to` from column `first` on becomes `scale` times the identity.
void set_diagonal(int64_t first, float scale, Parameter* to) {
  for (int64_t r = 0; r < to->shape[0]; ++r) to->value[static_cast<size_t>(r * to->shape[1] + first + r)] = scale;
}

void random_layer(uint64_t seed, LayerParameters* layer) {
  for (Parameter* matrix : {layer->q, layer->k, layer->v, layer->output, layer->gate, layer->up, layer->down}) {
    fill_random(seed, 0.5 / std::sqrt(static_cast<double>(matrix->shape[1])), matrix);
  }
}

void copy_layer(const LayerWeights& from, LayerParameters* to) {
  copy_vector(from.attention_norm, to->attention_norm);
  copy_matrix(from.q.weights, to->q);
  copy_matrix(from.k.weights, to->k);
  copy_matrix(from.v.weights, to->v);
  copy_vector(from.q_norm, to->q_norm);
  copy_vector(from.k_norm, to->k_norm);
  copy_matrix(from.output.weights, to->output);
  copy_vector(from.ffn_norm, to->ffn_norm);
  copy_matrix(from.gate.weights, to->gate);
  copy_matrix(from.up.weights, to->up);
  copy_matrix(from.down.weights, to->down);
}

}  // namespace

void fill_random(uint64_t seed, double deviation, Parameter* parameter) {
  StepRandom random(stable_hash(parameter->name, seed), 0);
  for (float& value : parameter->value) {
    const double radius = std::sqrt(-2.0 * std::log(random.uniform()));
    value = static_cast<float>(deviation * radius * std::cos(2.0 * std::numbers::pi * random.uniform()));
  }
}

FrozenTarget frozen_target(ThreadPool& pool, const Model& target, bool with_head) {
  const ModelConfig& config = target.config();
  const auto unpack = [&](const PackedMatrix& matrix, float scale) {
    std::vector<float> out(static_cast<size_t>(matrix.rows() * matrix.k()));
    constexpr int64_t kRows = 256;
    pool.run(static_cast<int>((matrix.rows() + kRows - 1) / kRows), [&](int task) {
      for (int64_t r = task * kRows; r < std::min(matrix.rows(), (task + 1) * kRows); ++r) {
        matrix.dequantise_row(r, out.data() + r * matrix.k());
        for (int64_t i = 0; i < matrix.k(); ++i) out[static_cast<size_t>(r * matrix.k() + i)] *= scale;
      }
    });
    return out;
  };
  FrozenTarget frozen;
  frozen.embedding = unpack(target.weights().embedding, config.embedding_scale);
  const bool same = target.weights().head.empty() && config.embedding_scale == 1.0f;
  if (with_head && !same) frozen.head = unpack(target.weights().head_or_embedding(), 1.0f);
  return frozen;
}

void initialise(const Model& target, const Recipe& recipe, const TrainData& data, const DraftVocabulary& vocabulary,
                DrafterParameters* parameters) {
  const ModelWeights& weights = target.weights();
  const DsparkConfig& config = recipe.drafter;
  for (size_t i = 0; i < parameters->layers.size(); ++i) {
    LayerParameters* layer = &parameters->layers[i];
    random_layer(recipe.seed, layer);
    const bool starts_as_one = i < recipe.from_layers.size();
    if (starts_as_one) copy_layer(weights.layers[static_cast<size_t>(recipe.from_layers[i])], layer);
    if (i == 0 && starts_as_one)
      std::copy_n(layer->attention_norm->value.begin(), config.backbone.hidden, parameters->hidden_norm->value.begin());
  }
  set_diagonal(config.features() - config.backbone.hidden, 1.0f, parameters->fc);
  copy_vector(weights.final_norm, parameters->output_norm);
  if (parameters->output != nullptr) {
    std::vector<float> row(static_cast<size_t>(config.backbone.hidden));
    for (int64_t r = 0; r < vocabulary.rows(); ++r) {
      weights.head_or_embedding().dequantise_row(vocabulary.id(r), row.data());
      std::copy(row.begin(), row.end(), parameters->output->value.begin() + r * config.backbone.hidden);
    }
  }
  if (config.lookup) {
    set_diagonal(0, 1.0f, parameters->lookup_token);
    set_diagonal(0, 0.5f, parameters->lookup_next);
  }
  if (config.head != DraftHead::kNone) {
    BigramFactors factors = bigram_factors(data, vocabulary, config.rank, recipe.seed);
    parameters->markov_w1->value = std::move(factors.w1);
    parameters->markov_w2->value = std::move(factors.w2);
  }
  for (Parameter* matrix : {parameters->gate, parameters->joint}) {
    if (matrix != nullptr) fill_random(recipe.seed, 0.5 / std::sqrt(static_cast<double>(matrix->shape[1])), matrix);
  }
}

}  // namespace dspark
