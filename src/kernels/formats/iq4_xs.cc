// IQ4_XS: 256 weights d · (scale − 32) · values[q]; unsigned 4-bit q, 8 sub-blocks with 6-bit scale. Pure functions,
// any thread.
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/formats/iq4_codes.h"
#include "kernels/formats/signed_search.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t scales_high[2];  // fifth and sixth bits of the scales
  uint8_t scales_low[4];
  uint8_t q[128];
};
static_assert(sizeof(Block) == 136);

void decode(const Block& block, UnpackedBlock& out) {
  int8_t scales[8] = {};
  merge_planes<8, 4, 1>(block.scales_low, 0, scales);
  merge_planes<8, 2, 1>(block.scales_high, 4, scales);
  for (int j = 0; j < 8; ++j) out.sub_scale[j] = static_cast<int8_t>(scales[j] - 32);
  merge_planes<256, 4, 16>(block.q, 0, out.codes);
}

void encode(const float* in, Block& block) {
  uint8_t codes[256];
  uint8_t scales[8];
  const SignedScales found = search_signed_scales<Iq4Codes, 32, -32>(in, codes);
  block.d = found.d;
  for (int j = 0; j < 8; ++j) scales[j] = static_cast<uint8_t>(found.scale[j] + 32);
  split_planes<8, 4, 1>(scales, 0, block.scales_low);
  split_planes<8, 2, 1>(scales, 4, block.scales_high);
  split_planes<256, 4, 16>(codes, 0, block.q);
}

}  // namespace

constinit const Format kIQ4_XSFormat = {.type = DType::kIQ4_XS,
                                        .dequantise = dequantise_blocks<kIQ4_XSFormat, Block>,
                                        .quantise = quantise_blocks<Block, encode>,
                                        .unpack = unpack_block<Block, decode>,
                                        .sub_elements = 32,
                                        .code_offset = 0,
                                        .code_values = kIq4Values,
                                        .minimum = Minimum::kNone};

}  // namespace dspark
