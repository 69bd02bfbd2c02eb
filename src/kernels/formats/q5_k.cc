// Q5_K: 256 weights d · scale · q − dmin · minimum; unsigned 5-bit q, 8 sub-blocks with 6-bit scale and minimum.
// Pure functions, any thread.
#include "kernels/formats/affine_search.h"
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/formats/k_scales.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t high[32];  // fifth bits
  uint8_t low[128];
};
static_assert(sizeof(Block) == 176);

void decode(const Block& block, UnpackedBlock& out) {
  out.dmin_f16 = block.dmin;
  unpack_k_scales(block.scales, out.sub_scale, out.sub_min);
  merge_planes<256, 4, 32>(block.low, 0, out.codes);
  merge_planes<256, 1, 32>(block.high, 4, out.codes);
}

void encode(const float* in, Block& block) {
  uint8_t codes[256];
  const AffineScales found = search_affine_scales<32, 31, 63>(in, codes);
  block.d = found.d;
  block.dmin = found.dmin;
  pack_k_scales(found.scale, found.minimum, block.scales);
  split_planes<256, 4, 32>(codes, 0, block.low);
  split_planes<256, 1, 32>(codes, 4, block.high);
}

}  // namespace

constinit const Format kQ5_KFormat = {.type = DType::kQ5_K,
                                      .dequantise = dequantise_blocks<kQ5_KFormat, Block>,
                                      .quantise = quantise_blocks<Block, encode>,
                                      .unpack = unpack_block<Block, decode>,
                                      .sub_elements = 32,
                                      .code_offset = 0,
                                      .code_values = nullptr,
                                      .minimum = Minimum::kScaledSubtracted};

}  // namespace dspark
