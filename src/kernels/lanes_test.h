// The operations of lanes_*.h, and vector_math.inl's exp, as a table of plain functions, one table per instruction set,
// for lanes_test.cc. Each table is built from lanes_test.inl by a file with that instruction set's flags.
#pragma once

#include <cstdint>

namespace dspark {

// Operands as raw memory, each large enough for every type: 16 floats, 16 integers, 64 codes, 16 halves ...
struct LaneInput {
  alignas(64) uint8_t a[64];
  alignas(64) uint8_t b[64];
  alignas(64) uint8_t c[64];
};

// What an operation returns, zero where it writes nothing.
struct LaneOutput {
  alignas(64) uint8_t x[64];
  alignas(64) uint8_t y[64];
};

struct LaneOp {
  const char* name;
  bool float_result;  // x holds floats, of which NaN are equal whatever their payload
  void (*run)(const LaneInput& in, LaneOutput* out);
};

struct LaneTable {
  const LaneOp* ops;
  int count;
};
extern const LaneTable kPortableLanes;
extern const LaneTable kAvx2Lanes;
extern const LaneTable kAvx512Lanes;

}  // namespace dspark
