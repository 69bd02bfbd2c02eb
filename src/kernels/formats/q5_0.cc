// Q5_0: 32 weights d · (q − 16) with unsigned 5-bit q. Pure functions, any thread.
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/formats/range_scale.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t high[4];  // fifth bits
  uint8_t low[16];
};
static_assert(sizeof(Block) == 22);

void decode(const Block& block, UnpackedBlock& out) {
  merge_planes<32, 4, 16>(block.low, 0, out.codes);
  merge_planes<32, 1, 1>(block.high, 4, out.codes);
}

void encode(const float* in, Block& block) {
  uint8_t codes[32];
  block.d = encode_symmetric(in, 16, codes);
  split_planes<32, 4, 16>(codes, 0, block.low);
  split_planes<32, 1, 1>(codes, 4, block.high);
}

}  // namespace

constinit const Format kQ5_0Format = {.type = DType::kQ5_0,
                                      .dequantise = dequantise_blocks<kQ5_0Format, Block>,
                                      .quantise = quantise_blocks<Block, encode>,
                                      .unpack = unpack_block<Block, decode>,
                                      .sub_elements = 32,
                                      .code_offset = 16,
                                      .code_values = nullptr,
                                      .minimum = Minimum::kNone};

}  // namespace dspark
