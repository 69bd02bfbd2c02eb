// How weights lie in memory once packed: one layout for all instruction sets (docs/numerics.md, "Weights").
// Pure data, any thread.
//
// Output rows are interleaved by 16 (a strip); K runs in pieces of 32. A packed block holds 16 rows x `elements` of K:
//   d      f16 [16]                    scale of each row's block
//   dmin   f16 [16]                    if the type has a minimum
//   then for each piece of 32:
//     codes                            planes of 64-byte groups: 16 rows x 4 K, row r at bytes 4r..4r+3 (see below)
//     scales int8 [32 / sub][16]       if the type has integer sub-scales (4-bit pairs with the minimum in Q2_K)
//     mins  uint8 [32 / sub][16]       if the type has integer sub-minima
// The value of a weight: d * sub_scale * (code - offset) + minimum, where the minimum is dmin (Q4_1, Q5_1) or
// -dmin * sub_min (K-quants).
//
// Planes of one piece (8 groups g of 4 K):
//   low nibbles, 4 x 64 bytes (4, 5 and 6 bits): group g in the low nibble of plane g, group g + 4 in its high nibble
//   low pairs, 2 x 64 bytes (2 and 3 bits; the top two bits of 6): group g at bit 2 (g % 4) of plane g / 4
//   single bits, 64 bytes (the top bit of 3 and 5): group g at bit g
//   bytes, 8 x 64 (8 bits)
#pragma once

#include "kernels/formats/format.h"

namespace dspark {

inline constexpr int kStripRows = 16;  // output rows interleaved
inline constexpr int kPiece = 32;      // K of one piece, and of one block of int8 activations
inline constexpr int kGroups = 8;      // groups of 4 K in a piece
inline constexpr int kGroupBytes = 64;

struct PackedLayout {
  DType type;
  int elements;   // K of a packed block: 32 or 256
  int code_bits;  // 2, 3, 4, 5, 6 or 8
  bool table;     // codes are indices into kIQ4Values
  int offset;     // subtracted from every code
  int code_max;   // largest code, after the table
  bool sub_scales;
  int sub;  // K under one scale within a piece: 32 or 16
  Minimum minimum;

  constexpr int pieces() const { return elements / kPiece; }
  constexpr int subs() const { return kPiece / sub; }
  // Q2_K keeps its two 4-bit numbers in one byte, so that packing does not grow it.
  constexpr bool paired() const { return sub_scales && minimum == Minimum::kScaledSubtracted && code_bits == 2; }
  constexpr int code_bytes() const { return code_bits * kStripRows * kPiece / 8; }
  constexpr int header_bytes() const { return minimum == Minimum::kNone ? 32 : 64; }
  constexpr int scales_offset() const { return code_bytes(); }
  constexpr int mins_offset() const { return scales_offset() + (sub_scales ? subs() * kStripRows : 0); }
  constexpr int piece_bytes() const {
    return mins_offset() + (minimum == Minimum::kScaledSubtracted && !paired() ? subs() * kStripRows : 0);
  }
  constexpr int block_bytes() const { return header_bytes() + pieces() * piece_bytes(); }
};

inline constexpr PackedLayout kQ8_0Layout = {DType::kQ8_0, 32, 8, false, 128, 255, false, 32, Minimum::kNone};
inline constexpr PackedLayout kQ4_0Layout = {DType::kQ4_0, 32, 4, false, 8, 15, false, 32, Minimum::kNone};
inline constexpr PackedLayout kQ4_1Layout = {DType::kQ4_1, 32, 4, false, 0, 15, false, 32, Minimum::kAdded};
inline constexpr PackedLayout kQ5_0Layout = {DType::kQ5_0, 32, 5, false, 16, 31, false, 32, Minimum::kNone};
inline constexpr PackedLayout kQ5_1Layout = {DType::kQ5_1, 32, 5, false, 0, 31, false, 32, Minimum::kAdded};
inline constexpr PackedLayout kQ2_KLayout = {DType::kQ2_K, 256, 2, false, 0, 3, true, 16, Minimum::kScaledSubtracted};
inline constexpr PackedLayout kQ3_KLayout = {DType::kQ3_K, 256, 3, false, 4, 7, true, 16, Minimum::kNone};
inline constexpr PackedLayout kQ4_KLayout = {DType::kQ4_K, 256, 4, false, 0, 15, true, 32, Minimum::kScaledSubtracted};
inline constexpr PackedLayout kQ5_KLayout = {DType::kQ5_K, 256, 5, false, 0, 31, true, 32, Minimum::kScaledSubtracted};
inline constexpr PackedLayout kQ6_KLayout = {DType::kQ6_K, 256, 6, false, 32, 63, true, 16, Minimum::kNone};
inline constexpr PackedLayout kIQ4_NLLayout = {DType::kIQ4_NL, 32, 4, true, 128, 255, false, 32, Minimum::kNone};
inline constexpr PackedLayout kIQ4_XSLayout = {DType::kIQ4_XS, 256, 4, true, 128, 255, true, 32, Minimum::kNone};

// Calls fn.operator()<layout>() with the layout of a quantised type.
template <class Fn>
constexpr auto with_layout(DType type, Fn&& fn) {
  switch (type) {
    case DType::kQ4_0:
      return fn.template operator()<kQ4_0Layout>();
    case DType::kQ4_1:
      return fn.template operator()<kQ4_1Layout>();
    case DType::kQ5_0:
      return fn.template operator()<kQ5_0Layout>();
    case DType::kQ5_1:
      return fn.template operator()<kQ5_1Layout>();
    case DType::kQ2_K:
      return fn.template operator()<kQ2_KLayout>();
    case DType::kQ3_K:
      return fn.template operator()<kQ3_KLayout>();
    case DType::kQ4_K:
      return fn.template operator()<kQ4_KLayout>();
    case DType::kQ5_K:
      return fn.template operator()<kQ5_KLayout>();
    case DType::kQ6_K:
      return fn.template operator()<kQ6_KLayout>();
    case DType::kIQ4_NL:
      return fn.template operator()<kIQ4_NLLayout>();
    case DType::kIQ4_XS:
      return fn.template operator()<kIQ4_XSLayout>();
    default:
      return fn.template operator()<kQ8_0Layout>();
  }
}

// The 16 values of the IQ4 types, plus 128 so that they are unsigned.
inline constexpr uint8_t kIQ4Values[16] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

}  // namespace dspark
