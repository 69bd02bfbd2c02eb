// The noise of draws (token law, docs/numerics.md): a word for each (seed, position, token) from a counter-based
// generator, and the Gumbel value that it stands for. No state travels from one token to the next. Pure but for
// random_seed; any thread.
#pragma once

#include <array>
#include <cstdint>

namespace dspark {

// Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The noise of one choice at one position of its sequence.
struct NoiseKey {
  uint64_t seed;
  uint64_t position;
};

// The word of `token`. Its upper 16 bits, which nearly always decide whether the token can win, are one half of a word
// of Philox under the seed as key at the counter (index, 0, position low, position high), so that 128 tokens share 16
// counters; its lower 16 bits are the same half at (index, 1, ...). Tokens t and t + 16 take successive words of a
// counter, first their low halves, then their high ones: 16 lanes hold 16 successive tokens.
uint32_t noise_word(NoiseKey key, int32_t token);

// -log(-log(1 - w)) for w = (word + 1/2) / 2^32: standard Gumbel, between kMinGumbel and kMaxGumbel. The upper tail,
// which decides draws, comes from small w, where it is precise.
double gumbel(uint32_t word);
inline constexpr double kMinGumbel = -3.1300;  // both just outside
inline constexpr double kMaxGumbel = 22.8739;

// The seed of choice `index` of a request with n choices: the seed itself for choice 0, for the others the upper 53 of
// 64 bits (word 1, word 0) of Philox under the seed as key, at the counter (index low, index high, "choi", "ce  "). 53
// bits because a JSON number carries no more.
uint64_t choice_seed(uint64_t seed, uint64_t index);

// From the system's entropy, for a request without a seed. 53 bits, too.
uint64_t random_seed();

}  // namespace dspark
