// What the quantised formats share: loops over blocks around the few lines that know one block's layout. Internal to
// formats/; included by portable files only. Pure functions, any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "kernels/formats/format.h"
#include "kernels/half.h"

namespace dspark {

static_assert(std::endian::native == std::endian::little, "blocks are read as they lie in the file");

// No format can hold a larger magnitude (q6_k comes nearest: 65504 · 128 · 32); below it squares cannot overflow.
inline constexpr float kMaxMagnitude = 1e9f;

// Largest magnitude of n values; NaN if any is NaN, whose bits exceed all others.
inline float max_magnitude(const float* in, int n) {
  int32_t largest = 0;
  for (int i = 0; i < n; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(in[i]) & 0x7fffffff;
    largest = largest > magnitude ? largest : magnitude;
  }
  return std::bit_cast<float>(largest);
}

template <class Block>
bool has_finite_scales(const Block& block) {
  if constexpr (requires { block.m; }) {
    if (!half_is_finite(block.m)) return false;
  }
  if constexpr (requires { block.dmin; }) {
    if (!half_is_finite(block.dmin)) return false;
  }
  return half_is_finite(block.d);
}

// Format::quantise from kEncode(const float* in, Block& zeroed_block), which sees finite values up to kMaxMagnitude.
template <class Block, auto kEncode>
void quantise_blocks(const float* in, int64_t elements, uint8_t* blocks) {
  constexpr int kElements = Block::kElements;
  DSPARK_CHECK(elements % kElements == 0, "{} elements in blocks of {}", elements, kElements);
  for (int64_t i = 0; i < elements / kElements; ++i) {
    const float* values = in + i * kElements;
    Block block{};
    const bool fits = max_magnitude(values, kElements) <= kMaxMagnitude;
    if (fits) kEncode(values, block);
    if (!fits || !has_finite_scales(block)) {
      block = Block{};
      block.d = kHalfNan;
    }
    std::memcpy(blocks + i * sizeof(Block), &block, sizeof(Block));
  }
}

// Format::unpack from kDecode(const Block&, UnpackedBlock& out), which finds codes 0, no minimum and one sub-scale.
template <class Block, auto kDecode>
void unpack_block(const uint8_t* bytes, UnpackedBlock* out) {
  Block block;
  std::memcpy(&block, bytes, sizeof(Block));
  std::memset(out->codes, 0, Block::kElements);
  out->d_f16 = block.d;
  out->dmin_f16 = 0;
  out->sub_scale[0] = 1;
  kDecode(block, *out);
}

// Format::dequantise: unpack, then the formula of UnpackedBlock.
template <const Format& kFormat, class Block>
void dequantise_blocks(const uint8_t* blocks, int64_t elements, float* out) {
  constexpr int kElements = Block::kElements;
  DSPARK_CHECK(elements % kElements == 0, "{} elements in blocks of {}", elements, kElements);
  UnpackedBlock unpacked;
  for (int64_t i = 0; i < elements / kElements; ++i) {
    kFormat.unpack(blocks + i * sizeof(Block), &unpacked);
    const float d = half_to_float(unpacked.d_f16);
    const float dmin = half_to_float(unpacked.dmin_f16);
    float* values = out + i * kElements;
    for (int start = 0; start < kElements; start += kFormat.sub_elements) {
      const int sub = start / kFormat.sub_elements;
      const float scale = d * static_cast<float>(unpacked.sub_scale[sub]);
      float minimum = 0.0f;
      if (kFormat.minimum == Minimum::kScaledSubtracted) minimum = dmin * static_cast<float>(unpacked.sub_min[sub]);
      for (int j = start; j < start + kFormat.sub_elements; ++j) {
        const int code = unpacked.codes[j];
        const int weight = kFormat.code_values ? kFormat.code_values[code] : code - kFormat.code_offset;
        float value = scale * static_cast<float>(weight);
        if (kFormat.minimum == Minimum::kAdded) value += dmin;
        if (kFormat.minimum == Minimum::kScaledSubtracted) value -= minimum;
        values[j] = value;
      }
    }
  }
}

}  // namespace dspark
