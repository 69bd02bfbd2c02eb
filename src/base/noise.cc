// Scalar Philox and what is made of it. Owns no state.
#include "base/noise.h"

#include <sys/random.h>

#include <cerrno>

#include "base/check.h"
#include "base/exact_math.h"

namespace dspark {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  auto [c0, c1, c2, c3] = counter;
  auto [k0, k1] = key;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0, p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

uint32_t noise_word(NoiseKey key, int32_t token) {
  const uint32_t t = static_cast<uint32_t>(token);
  const uint32_t index = t / 128 * 16 + t % 16, slot = t / 16 % 8;
  const auto half = [&](uint32_t part) {
    const auto words =
        philox4x32({index, part, static_cast<uint32_t>(key.position), static_cast<uint32_t>(key.position >> 32)},
                   {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
    return words[slot % 4] >> (slot / 4 * 16) & 0xFFFF;
  };
  return half(0) << 16 | half(1);
}

double gumbel(uint32_t word) {
  const double w = (static_cast<double>(word) + 0.5) * 0x1p-32;
  return -exact_log(-exact_log(1.0 - w));  // 33 bits of w: 1 - w is exact
}

uint64_t choice_seed(uint64_t seed, uint64_t index) {
  if (index == 0) return seed;
  const auto words =
      philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0x696f6863u, 0x20206563u},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{words[1]} << 32 | words[0]) >> 11;
}

uint64_t random_seed() {
  uint64_t out = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&out, sizeof(out), 0);
  } while (got < 0 && errno == EINTR);
  DSPARK_CHECK(got == sizeof(out), "getrandom gave {} bytes, errno {}", got, errno);
  return out >> 11;
}

}  // namespace dspark
