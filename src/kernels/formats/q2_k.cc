// Q2_K: 256 weights d · scale · q − dmin · minimum; unsigned 2-bit q, 16 sub-blocks with 4-bit scale and minimum.
// Pure functions, any thread.
#include "kernels/formats/affine_search.h"
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 256;
  uint8_t scales[16];  // scale in the low, minimum in the high half
  uint8_t q[64];
  uint16_t d;
  uint16_t dmin;
};
static_assert(sizeof(Block) == 84);

void decode(const Block& block, UnpackedBlock& out) {
  out.dmin_f16 = block.dmin;
  for (int j = 0; j < 16; ++j) {
    out.sub_scale[j] = static_cast<int8_t>(block.scales[j] & 15);
    out.sub_min[j] = static_cast<uint8_t>(block.scales[j] >> 4);
  }
  merge_planes<256, 2, 32>(block.q, 0, out.codes);
}

void encode(const float* in, Block& block) {
  uint8_t codes[256];
  const AffineScales found = search_affine_scales<16, 3, 15>(in, codes);
  block.d = found.d;
  block.dmin = found.dmin;
  for (int j = 0; j < 16; ++j) block.scales[j] = static_cast<uint8_t>(found.scale[j] | found.minimum[j] << 4);
  split_planes<256, 2, 32>(codes, 0, block.q);
}

}  // namespace

constinit const Format kQ2_KFormat = {.type = DType::kQ2_K,
                                      .dequantise = dequantise_blocks<kQ2_KFormat, Block>,
                                      .quantise = quantise_blocks<Block, encode>,
                                      .unpack = unpack_block<Block, decode>,
                                      .sub_elements = 16,
                                      .code_offset = 0,
                                      .code_values = nullptr,
                                      .minimum = Minimum::kScaledSubtracted};

}  // namespace dspark
