// The weight formats as they lie in files: to floats, from floats, and taken apart for the packer. Pure functions and
// constant tables, any thread.
//
// Layouts are GGML's. One file per format defines its block and a `Format`; format_list.h names them all.
#pragma once

#include <cstdint>

#include "kernels/dtype.h"

namespace dspark {

inline constexpr int kMaxBlockElements = 256;

// One block of a quantised format as plain integers in element order. The value of element i, in sub-block
// j = i / Format::sub_elements, is
//   d · sub_scale[j] · w  +  minimum,   w = codes[i] − Format::code_offset, or Format::code_values[codes[i]] if given;
// Format::minimum says what is added. Every product of integers and d is exact in float, so that the sum is the only
// rounding. Formats without sub-scales have sub_scale[0] = 1; entries beyond the last sub-block or element are
// unspecified.
struct UnpackedBlock {
  int8_t codes[kMaxBlockElements];
  uint16_t d_f16;     // raw binary16
  uint16_t dmin_f16;  // raw binary16; 0 where the format has no minimum
  int8_t sub_scale[16];
  uint8_t sub_min[16];
};

enum class Minimum : uint8_t {
  kNone,
  kAdded,             // + dmin (the `m` of q4_1 and q5_1)
  kScaledSubtracted,  // − dmin · sub_min[j]
};

// elements is a multiple of the type's block_elements everywhere (a programmer error otherwise); buffers need no
// alignment beyond that of their C++ type and must not overlap.
struct Format {
  DType type;

  // Values of `elements` weights, each the format's definition rounded once to float; infinities and NaN follow IEEE.
  void (*dequantise)(const uint8_t* blocks, int64_t elements, float* out);

  // Nearest blocks: float types round to nearest even; q8_0, q4_0, q4_1, q5_0 and q5_1 equal GGML's reference bit for
  // bit; the others minimise the squared error (scale_search.h). The bits depend on the input alone. A block with a
  // value that is not finite, or that needs a scale beyond the largest half, becomes NaN as a whole, so that it shows.
  void (*quantise)(const float* in, int64_t elements, uint8_t* blocks);

  // One block of block_bytes taken apart; null for float types.
  void (*unpack)(const uint8_t* block, UnpackedBlock* out);

  int sub_elements;           // elements that share one sub_scale; block_elements where there is only d
  int code_offset;            // subtracted from a code
  const int8_t* code_values;  // 16 weights by code, for iq4_*; null otherwise
  Minimum minimum;
};

const Format& format_of(DType type);

}  // namespace dspark
