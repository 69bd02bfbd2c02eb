// How all blocks store codes of fewer than 8 bits: kStride bytes hold the first kStride elements in their lowest kBits,
// the next kStride elements in the bits above, until the bytes are full; then the next kStride bytes begin. Formats
// differ in bits and stride, and may keep the upper bits of a code in planes of their own. Internal to formats/. Pure
// functions, any thread.
#pragma once

#include <cstdint>

namespace dspark {

// ORs the kBits of each of kElements elements, moved up by `position`, into its code.
template <int kElements, int kBits, int kStride>
void merge_planes(const uint8_t* packed, int position, int8_t* codes) {
  constexpr int kGroup = 8 / kBits * kStride;
  static_assert(kElements % kGroup == 0);
  for (int group = 0; group < kElements; group += kGroup, packed += kStride) {
    for (int plane = 0; plane < 8 / kBits; ++plane) {
      for (int i = 0; i < kStride; ++i) {
        const int field = packed[i] >> (plane * kBits) & ((1 << kBits) - 1);
        int8_t& code = codes[group + plane * kStride + i];
        code = static_cast<int8_t>(code | field << position);
      }
    }
  }
}

// The inverse: stores bits position..position + kBits − 1 of every code.
template <int kElements, int kBits, int kStride>
void split_planes(const uint8_t* codes, int position, uint8_t* packed) {
  constexpr int kGroup = 8 / kBits * kStride;
  static_assert(kElements % kGroup == 0);
  for (int group = 0; group < kElements; group += kGroup, packed += kStride) {
    for (int i = 0; i < kStride; ++i) {
      int byte = 0;
      for (int plane = 0; plane < 8 / kBits; ++plane) {
        const int field = codes[group + plane * kStride + i] >> position & ((1 << kBits) - 1);
        byte |= field << (plane * kBits);
      }
      packed[i] = static_cast<uint8_t>(byte);
    }
  }
}

}  // namespace dspark
