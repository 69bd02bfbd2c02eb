// Q3_K: 256 weights d · (scale − 32) · (q − 4); unsigned 3-bit q, 16 sub-blocks with 6-bit scale. Pure functions, any
// thread.
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/formats/signed_search.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 256;
  uint8_t high[32];  // third bits
  uint8_t low[64];
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(Block) == 110);

// Scale j: low four bits in a half of bytes 0–7, high two bits in a quarter of bytes 8–11.
void decode(const Block& block, UnpackedBlock& out) {
  int8_t scales[16] = {};
  merge_planes<16, 4, 8>(block.scales, 0, scales);
  merge_planes<16, 2, 4>(block.scales + 8, 4, scales);
  for (int j = 0; j < 16; ++j) out.sub_scale[j] = static_cast<int8_t>(scales[j] - 32);
  merge_planes<256, 2, 32>(block.low, 0, out.codes);
  merge_planes<256, 1, 32>(block.high, 2, out.codes);
}

void encode(const float* in, Block& block) {
  uint8_t codes[256];
  uint8_t scales[16];
  const SignedScales found = search_signed_scales<UniformCodes<-4, 3>, 16, -32>(in, codes);
  block.d = found.d;
  for (int j = 0; j < 16; ++j) scales[j] = static_cast<uint8_t>(found.scale[j] + 32);
  split_planes<16, 4, 8>(scales, 0, block.scales);
  split_planes<16, 2, 4>(scales, 4, block.scales + 8);
  split_planes<256, 2, 32>(codes, 0, block.low);
  split_planes<256, 1, 32>(codes, 2, block.high);
}

}  // namespace

constinit const Format kQ3_KFormat = {.type = DType::kQ3_K,
                                      .dequantise = dequantise_blocks<kQ3_KFormat, Block>,
                                      .quantise = quantise_blocks<Block, encode>,
                                      .unpack = unpack_block<Block, decode>,
                                      .sub_elements = 16,
                                      .code_offset = 4,
                                      .code_values = nullptr,
                                      .minimum = Minimum::kNone};

}  // namespace dspark
