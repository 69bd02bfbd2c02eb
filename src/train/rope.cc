// See rope.h.
#include "train/rope.h"

#include <cmath>

#include "train/row_tasks.h"

namespace dspark {

void RopeTable::reach(int64_t last) {
  const int64_t known = static_cast<int64_t>(cos_.size()) / half_;
  if (last < known) return;
  cos_.resize(static_cast<size_t>((last + 1) * half_));
  sin_.resize(cos_.size());
  for (int64_t i = 0; i < half_; ++i) {
    const double factor = config_.factors.empty() ? 1.0 : config_.factors[static_cast<size_t>(i)];
    const double frequency =
        std::pow(config_.base, -static_cast<double>(i) / static_cast<double>(half_)) / factor / config_.scale;
    for (int64_t position = known; position <= last; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      cos_[static_cast<size_t>(position * half_ + i)] = static_cast<float>(std::cos(angle));
      sin_[static_cast<size_t>(position * half_ + i)] = static_cast<float>(std::sin(angle));
    }
  }
}

void RopeTable::rotate(ThreadPool& pool, int64_t rows, int64_t heads, const int32_t* positions, bool back,
                       float* x) const {
  for_each_row(pool, rows, [=, this](int64_t row) {
    const float* cos = cos_.data() + positions[row] * half_;
    const float* sin = sin_.data() + positions[row] * half_;
    const float sign = back ? -1.0f : 1.0f;
    for (int64_t head = 0; head < heads; ++head) {
      float* low = x + (row * heads + head) * 2 * half_;
      float* high = low + half_;
      for (int64_t i = 0; i < half_; ++i) {
        const float a = low[i], b = high[i], s = sign * sin[i];
        low[i] = a * cos[i] - b * s;
        high[i] = b * cos[i] + a * s;
      }
    }
  });
}

}  // namespace dspark
