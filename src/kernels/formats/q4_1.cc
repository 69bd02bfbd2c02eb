// Q4_1: 32 weights d · q + m with unsigned 4-bit q. Pure functions, any thread.
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/formats/range_scale.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 32;
  uint16_t d;
  uint16_t m;
  uint8_t low[16];
};
static_assert(sizeof(Block) == 20);

void decode(const Block& block, UnpackedBlock& out) {
  out.dmin_f16 = block.m;
  merge_planes<32, 4, 16>(block.low, 0, out.codes);
}

void encode(const float* in, Block& block) {
  uint8_t codes[32];
  const RangeScale scale = encode_range(in, 15, codes);
  block.d = scale.d;
  block.m = scale.m;
  split_planes<32, 4, 16>(codes, 0, block.low);
}

}  // namespace

constinit const Format kQ4_1Format = {.type = DType::kQ4_1,
                                      .dequantise = dequantise_blocks<kQ4_1Format, Block>,
                                      .quantise = quantise_blocks<Block, encode>,
                                      .unpack = unpack_block<Block, decode>,
                                      .sub_elements = 32,
                                      .code_offset = 0,
                                      .code_values = nullptr,
                                      .minimum = Minimum::kAdded};

}  // namespace dspark
