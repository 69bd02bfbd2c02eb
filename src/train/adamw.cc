// See adamw.h.
#include "train/adamw.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dspark {
namespace {

constexpr int64_t kChunk = 1 << 16;  // values in a task

struct Chunk {
  Parameter* parameter;
  int64_t first, end;
};

std::vector<Chunk> chunks_of(DrafterParameters* parameters) {
  std::vector<Chunk> chunks;
  for (Parameter& parameter : parameters->all) {
    for (int64_t first = 0; first < parameter.size(); first += kChunk) {
      chunks.push_back({&parameter, first, std::min(first + kChunk, parameter.size())});
    }
  }
  return chunks;
}

}  // namespace

double learning_rate(int64_t step, int64_t warm_up, int64_t steps, double peak, double floor) {
  if (step < warm_up) return peak * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  const double whole = static_cast<double>(std::max<int64_t>(1, steps - warm_up));
  const double done = std::min(1.0, static_cast<double>(step - warm_up) / whole);
  return peak * (floor + (1.0 - floor) * 0.5 * (1.0 + std::cos(std::numbers::pi * done)));
}

double adamw_step(ThreadPool& pool, const AdamWOptions& options, int64_t step, double rate,
                  DrafterParameters* parameters) {
  const std::vector<Chunk> chunks = chunks_of(parameters);
  std::vector<double> squares(chunks.size());
  pool.run(static_cast<int>(chunks.size()), [&](int task) {
    const Chunk& chunk = chunks[static_cast<size_t>(task)];
    double sum = 0.0;
    for (int64_t i = chunk.first; i < chunk.end; ++i) {
      const double g = chunk.parameter->gradient[static_cast<size_t>(i)];
      sum += g * g;
    }
    squares[static_cast<size_t>(task)] = sum;
  });
  double total = 0.0;
  for (const double sum : squares) total += sum;
  const double norm = std::sqrt(total);
  if (!std::isfinite(norm)) return norm;
  const auto scale = static_cast<float>(options.clip > 0 && norm > options.clip ? options.clip / norm : 1.0);
  const auto beta1 = static_cast<float>(options.beta1), beta2 = static_cast<float>(options.beta2);
  const double count = static_cast<double>(step + 1);
  const auto first_scale = static_cast<float>(1.0 / (1.0 - std::pow(options.beta1, count)));
  const auto second_scale = static_cast<float>(1.0 / (1.0 - std::pow(options.beta2, count)));
  const auto epsilon = static_cast<float>(options.epsilon), lr = static_cast<float>(rate);
  pool.run(static_cast<int>(chunks.size()), [&](int task) {
    const auto [parameter, first, end] = chunks[static_cast<size_t>(task)];
    const float keep = parameter->decays ? 1.0f - lr * static_cast<float>(options.weight_decay) : 1.0f;
    float *value = parameter->value.data(), *m = parameter->first_moment.data(), *v = parameter->second_moment.data();
    const float* gradient = parameter->gradient.data();
    for (int64_t i = first; i < end; ++i) {
      const float g = gradient[i] * scale;
      m[i] = beta1 * m[i] + (1.0f - beta1) * g;
      v[i] = beta2 * v[i] + (1.0f - beta2) * g * g;
      value[i] = value[i] * keep - lr * (m[i] * first_scale) / (std::sqrt(v[i] * second_scale) + epsilon);
    }
  });
  return norm;
}

}  // namespace dspark
