// IQ4_NL: 32 weights d · values[q] with unsigned 4-bit q. Pure functions, any thread.
#include "kernels/formats/bit_planes.h"
#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/formats/iq4_codes.h"
#include "kernels/formats/signed_search.h"

namespace dspark {
namespace {

struct Block {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t q[16];
};
static_assert(sizeof(Block) == 18);

void decode(const Block& block, UnpackedBlock& out) { merge_planes<32, 4, 16>(block.q, 0, out.codes); }

void encode(const float* in, Block& block) {
  uint8_t codes[32];
  block.d = half_from_float(fit_scale<Iq4Codes, 32>(in));
  choose_codes<Iq4Codes, 32>(in, half_to_float(block.d), codes);
  split_planes<32, 4, 16>(codes, 0, block.q);
}

}  // namespace

constinit const Format kIQ4_NLFormat = {.type = DType::kIQ4_NL,
                                        .dequantise = dequantise_blocks<kIQ4_NLFormat, Block>,
                                        .quantise = quantise_blocks<Block, encode>,
                                        .unpack = unpack_block<Block, decode>,
                                        .sub_elements = 32,
                                        .code_offset = 0,
                                        .code_values = kIq4Values,
                                        .minimum = Minimum::kNone};

}  // namespace dspark
