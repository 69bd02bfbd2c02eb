// Q6_K: 256 weights d · scale · (q − 32); unsigned 6-bit q, 16 sub-blocks with signed 8-bit scale. Pure functions, any
// thread.
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/formats/signed_search.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 256;
  uint8_t low[128];
  uint8_t high[64];  // fifth and sixth bits
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(Block) == 210);

void decode(const Block& block, UnpackedBlock& out) {
  std::memcpy(out.sub_scale, block.scales, sizeof(block.scales));
  merge_planes<256, 4, 64>(block.low, 0, out.codes);
  merge_planes<256, 2, 32>(block.high, 4, out.codes);
}

void encode(const float* in, Block& block) {
  uint8_t codes[256];
  const SignedScales found = search_signed_scales<UniformCodes<-32, 31>, 16, -128>(in, codes);
  block.d = found.d;
  std::memcpy(block.scales, found.scale, sizeof(block.scales));
  split_planes<256, 4, 64>(codes, 0, block.low);
  split_planes<256, 2, 32>(codes, 4, block.high);
}

}  // namespace

constinit const Format kQ6_KFormat = {.type = DType::kQ6_K,
                                      .dequantise = dequantise_blocks<kQ6_KFormat, Block>,
                                      .quantise = quantise_blocks<Block, encode>,
                                      .unpack = unpack_block<Block, decode>,
                                      .sub_elements = 16,
                                      .code_offset = 32,
                                      .code_values = nullptr,
                                      .minimum = Minimum::kNone};

}  // namespace dspark
