// F32, F16 and BF16 in files: little-endian values, one after the other. Pure functions, any thread.
#include <cstring>

#include "kernels/formats/block_codec.h"
#include "kernels/formats/format_list.h"
#include "kernels/half.h"

namespace dspark {
namespace {

void copy_to_float(const uint8_t* blocks, int64_t elements, float* out) {
  std::memcpy(out, blocks, static_cast<size_t>(elements) * sizeof(float));
}

void copy_from_float(const float* in, int64_t elements, uint8_t* blocks) {
  std::memcpy(blocks, in, static_cast<size_t>(elements) * sizeof(float));
}

template <float (*kConvert)(uint16_t)>
void widen(const uint8_t* blocks, int64_t elements, float* out) {
  for (int64_t i = 0; i < elements; ++i) {
    uint16_t bits;
    std::memcpy(&bits, blocks + 2 * i, sizeof(bits));
    out[i] = kConvert(bits);
  }
}

template <uint16_t (*kConvert)(float)>
void narrow(const float* in, int64_t elements, uint8_t* blocks) {
  for (int64_t i = 0; i < elements; ++i) {
    const uint16_t bits = kConvert(in[i]);
    std::memcpy(blocks + 2 * i, &bits, sizeof(bits));
  }
}

constexpr Format float_format(DType type, decltype(Format::dequantise) dequantise,
                              decltype(Format::quantise) quantise) {
  return {.type = type,
          .dequantise = dequantise,
          .quantise = quantise,
          .unpack = nullptr,
          .sub_elements = 1,
          .code_offset = 0,
          .code_values = nullptr,
          .minimum = Minimum::kNone};
}

}  // namespace

constinit const Format kF32Format = float_format(DType::kF32, copy_to_float, copy_from_float);
constinit const Format kF16Format = float_format(DType::kF16, widen<half_to_float>, narrow<half_from_float>);
constinit const Format kBF16Format = float_format(DType::kBF16, widen<bf16_to_float>, narrow<bf16_from_float>);

}  // namespace dspark
