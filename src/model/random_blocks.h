// Random weights made directly in the layout of any element type, for synthetic models. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace dspark {

// A stream of 64-bit words (SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014).
class RandomWords {
 public:
  explicit RandomWords(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // In [low, high), high - low at most 2^32.
  uint32_t between(uint32_t low, uint32_t high) {
    return low + static_cast<uint32_t>((next() >> 32) * (high - low) >> 32);
  }
  // In [-1, 1).
  float symmetric() { return static_cast<float>(static_cast<int64_t>(next()) >> 40) * 0x1p-23f; }

 private:
  uint64_t state_;
};

// Fills `out`, whole blocks of `type`, with weights of mean 0 (about) and the given standard deviation: normal for
// float types, uniform over the codes for quantised ones, with block scales that vary as those of real models do.
void fill_random_weights(DType type, float deviation, RandomWords& random, std::span<uint8_t> out);

}  // namespace dspark
