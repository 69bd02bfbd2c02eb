// Q8_0: 32 weights d · q with signed 8-bit q. Pure functions, any thread.
#include "kernels/formats/block_codec.h"
#include "kernels/formats/float4.h"
#include "kernels/formats/format_list.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 32;
  uint16_t d;
  int8_t q[32];
};
static_assert(sizeof(Block) == 34);

void decode(const Block& block, UnpackedBlock& out) { std::memcpy(out.codes, block.q, sizeof(block.q)); }

// GGML's rounding: halves away from zero, with the scale not yet rounded to half.
void encode(const float* in, Block& block) {
  const float d = max_magnitude(in, Block::kElements) / 127.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  block.d = half_from_float(d);
  for (int i = 0; i < Block::kElements; i += 4) {
    const Float4 scaled = clamp4(load4(in + i) * inverse, -127.0f, 127.0f);
    const Float4 magnitude = abs4(scaled);
    const Float4 even = round4(magnitude);
    const Float4 away = magnitude - even >= 0.5f ? even + 1.0f : even;
    store_bytes(scaled < 0.0f ? -away : away, block.q + i);
  }
}

}  // namespace

constinit const Format kQ8_0Format = {.type = DType::kQ8_0,
                                      .dequantise = dequantise_blocks<kQ8_0Format, Block>,
                                      .quantise = quantise_blocks<Block, encode>,
                                      .unpack = unpack_block<Block, decode>,
                                      .sub_elements = 32,
                                      .code_offset = 0,
                                      .code_values = nullptr,
                                      .minimum = Minimum::kNone};

}  // namespace dspark
