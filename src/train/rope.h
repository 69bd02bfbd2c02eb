// Rotary embedding for training, NeoX's pairing (i, i + dim / 2), from the float tables of the inference path's
// frequencies. The gradient is the opposite rotation.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "model/config.h"

namespace dspark {

class RopeTable {
 public:
  RopeTable(const RopeConfig& config, int dim) : config_(config), half_(dim / 2) {}

  // Makes angles for positions up to `last`.
  void reach(int64_t last);
  // Rotates x [rows, heads, dim] in place, row r standing at positions[r], all within reach; `back` turns the other
  // way.
  void rotate(ThreadPool& pool, int64_t rows, int64_t heads, const int32_t* positions, bool back, float* x) const;

 private:
  RopeConfig config_;
  int64_t half_;
  std::vector<float> cos_, sin_;  // [positions, half]
};

}  // namespace dspark
