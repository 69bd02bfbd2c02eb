// The block makers behind random_blocks.h. Layouts are GGML's, as in kernels/formats. Codes are drawn uniformly; `d` is
// set so that d × (standard deviation of the scaled codes) is the deviation asked for, times a jitter for each block.
#include "model/random_blocks.h"

#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/half.h"

namespace dspark {
namespace {

void put_half(uint8_t* out, float value) {
  const uint16_t half = half_from_float(value);
  std::memcpy(out, &half, sizeof(half));
}

void put_random(uint8_t* out, size_t count, RandomWords& random) {
  while (count > 0) {
    const uint64_t word = random.next();
    const size_t step = count < sizeof(word) ? count : sizeof(word);
    std::memcpy(out, &word, step);
    out += step;
    count -= step;
  }
}

// Standard deviation of a uniform draw from `count` neighbouring integers.
float uniform_deviation(int count) {
  return std::sqrt((static_cast<float>(count) * static_cast<float>(count) - 1) / 12);
}

// A block's own deviation: within 25 % of the one asked for.
float jittered(float deviation, RandomWords& random) { return deviation * (1.0f + 0.25f * random.symmetric()); }

// q4_0 and q5_0: d, then codes of `bits` around their middle. q4_1 and q5_1: d, minimum, codes.
void simple_block(uint8_t* out, size_t bytes, int bits, bool has_minimum, float deviation, RandomWords& random) {
  const float d = jittered(deviation, random) / uniform_deviation(1 << bits);
  put_half(out, d);
  if (has_minimum) put_half(out + 2, -d * static_cast<float>((1 << bits) - 1) / 2);
  const size_t header = has_minimum ? 4 : 2;
  put_random(out + header, bytes - header, random);
}

void q8_0_block(uint8_t* out, float deviation, RandomWords& random) {
  put_half(out, jittered(deviation, random) / uniform_deviation(255));
  put_random(out + 2, 32, random);
  for (int i = 2; i < 34; ++i) {
    if (out[i] == 0x80) out[i] = 0x81;  // quantisers never write -128
  }
}

// 16 sub-blocks with a scale and a minimum of 4 bits: both equal, so that dmin = 1.5 d centres the codes 0 to 3.
void q2_k_block(uint8_t* out, float deviation, RandomWords& random) {
  constexpr float kMeanScale = 11.5f;
  for (int j = 0; j < 16; ++j) {
    const uint32_t scale = random.between(8, 16);
    out[j] = static_cast<uint8_t>(scale | scale << 4);
  }
  put_random(out + 16, 64, random);
  const float d = jittered(deviation, random) / (uniform_deviation(4) * kMeanScale);
  put_half(out + 80, d);
  put_half(out + 82, d * 1.5f);
}

// Codes of 3 bits around 0 and sub-scales of 6 bits around 0: all uniform.
void q3_k_block(uint8_t* out, float deviation, RandomWords& random) {
  put_random(out, 108, random);
  put_half(out + 108, jittered(deviation, random) / (uniform_deviation(8) * uniform_deviation(64)));
}

// q4_k and q5_k: 8 sub-blocks with scale and minimum of 6 bits, both equal; dmin centres the codes.
void k_block(uint8_t* out, size_t bytes, int bits, float deviation, RandomWords& random) {
  constexpr float kMeanScale = 47.5f;
  const float d = jittered(deviation, random) / (uniform_deviation(1 << bits) * kMeanScale);
  put_half(out, d);
  put_half(out + 2, d * static_cast<float>((1 << bits) - 1) / 2);
  uint8_t* packed = out + 4;
  for (int j = 0; j < 4; ++j) {
    const uint32_t low = random.between(32, 64);   // of sub-block j
    const uint32_t high = random.between(32, 64);  // of sub-block j + 4: its upper two bits go above `low`
    packed[j] = packed[j + 4] = static_cast<uint8_t>(low | high >> 4 << 6);
    packed[j + 8] = static_cast<uint8_t>((high & 15) | (high & 15) << 4);
  }
  put_random(out + 16, bytes - 16, random);
}

void q6_k_block(uint8_t* out, float deviation, RandomWords& random) {
  // Sub-scales are signed bytes of magnitude 32 to 127.
  constexpr float kMeanScale = 79.5f;
  put_random(out, 192, random);
  for (int j = 0; j < 16; ++j) {
    const auto magnitude = static_cast<int32_t>(random.between(32, 128));
    out[192 + j] = static_cast<uint8_t>(random.next() >> 63 != 0 ? -magnitude : magnitude);
  }
  put_half(out + 208, jittered(deviation, random) / (uniform_deviation(64) * kMeanScale));
}

constexpr float kIq4CodeDeviation = 69.0f;  // of the 16 values that iq4 codes stand for

void iq4_nl_block(uint8_t* out, float deviation, RandomWords& random) {
  put_half(out, jittered(deviation, random) / kIq4CodeDeviation);
  put_random(out + 2, 16, random);
}

void iq4_xs_block(uint8_t* out, float deviation, RandomWords& random) {
  put_half(out, jittered(deviation, random) / (kIq4CodeDeviation * uniform_deviation(64)));
  put_random(out + 2, 134, random);
}

// Sum of four uniform 16-bit numbers: normal enough, bounded at 3.5 deviations.
float normal(RandomWords& random) {
  const uint64_t word = random.next();
  const auto part = [&](int i) { return static_cast<int32_t>(word >> (16 * i) & 0xFFFF); };
  const int32_t sum = part(0) + part(1) + part(2) + part(3) - 2 * 65535;
  return static_cast<float>(sum) / (2 * uniform_deviation(65536));
}

void random_block(DType type, size_t bytes, float deviation, RandomWords& random, uint8_t* out) {
  switch (type) {
    case DType::kF32: {
      const float value = deviation * normal(random);
      std::memcpy(out, &value, sizeof(value));
      return;
    }
    case DType::kF16:
      return put_half(out, deviation * normal(random));
    case DType::kBF16: {
      const uint16_t value = bf16_from_float(deviation * normal(random));
      std::memcpy(out, &value, sizeof(value));
      return;
    }
    case DType::kQ8_0:
      return q8_0_block(out, deviation, random);
    case DType::kQ4_0:
      return simple_block(out, bytes, 4, false, deviation, random);
    case DType::kQ4_1:
      return simple_block(out, bytes, 4, true, deviation, random);
    case DType::kQ5_0:
      return simple_block(out, bytes, 5, false, deviation, random);
    case DType::kQ5_1:
      return simple_block(out, bytes, 5, true, deviation, random);
    case DType::kQ2_K:
      return q2_k_block(out, deviation, random);
    case DType::kQ3_K:
      return q3_k_block(out, deviation, random);
    case DType::kQ4_K:
      return k_block(out, bytes, 4, deviation, random);
    case DType::kQ5_K:
      return k_block(out, bytes, 5, deviation, random);
    case DType::kQ6_K:
      return q6_k_block(out, deviation, random);
    case DType::kIQ4_NL:
      return iq4_nl_block(out, deviation, random);
    case DType::kIQ4_XS:
      return iq4_xs_block(out, deviation, random);
  }
}

}  // namespace

void fill_random_weights(DType type, float deviation, RandomWords& random, std::span<uint8_t> out) {
  const auto bytes = static_cast<size_t>(dtype_info(type).block_bytes);
  DSPARK_CHECK(out.size() % bytes == 0, "{} bytes in blocks of {}", out.size(), bytes);
  for (size_t i = 0; i < out.size(); i += bytes) random_block(type, bytes, deviation, random, out.data() + i);
}

}  // namespace dspark
