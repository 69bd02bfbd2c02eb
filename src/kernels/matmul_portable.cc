// The matrix product in plain C++: the reference that defines the bits of matmul_avx2.cc and matmul_avx512.cc.
// Workers only.
#include <utility>

#include "kernels/lanes_portable.h"
#include "kernels/matmul_kernels.h"
#include "kernels/packed_layout.h"
#include "kernels/weights.inl"

namespace dspark {
namespace {

// Exact integer dot products of 16 rows with 4 activations, added to `dot`.
void add_dot(Codes codes, const int8_t* q, I32* dot) {
  for (int row = 0; row < kStripRows; ++row) {
    for (int i = 0; i < 4; ++i) dot->v[row] += codes.v[4 * row + i] * q[i];
  }
}

template <PackedLayout kL>
void strip(const uint8_t* weights, int pieces, const TokenTile& tile) {
  const ActivationBlock* x = tile.blocks[0];
  F32 acc = f32_zero();
  PackedSource<kL> source(weights, 0);
  for (int p = 0; p < pieces; source.advance(++p)) {
    Codes codes[kGroups];
    [&]<int... kG>(std::integer_sequence<int, kG...>) { ((codes[kG] = source.template codes<kG>()), ...); }
    (std::make_integer_sequence<int, kGroups>());
    for (int sub = 0; sub < kL.subs(); ++sub) {
      const int32_t sum = kL.subs() == 1 ? x[p].sum : sub == 0 ? x[p].sum_low : x[p].sum - x[p].sum_low;
      I32 dot = i32_set(-kL.offset * sum);
      for (int g = sub * kL.sub / 4; g < (sub + 1) * kL.sub / 4; ++g) add_dot(codes[g], x[p].q + 4 * g, &dot);
      acc = fma(source.scale(sub) * f32_set(x[p].scale), to_f32(dot), acc);
      if constexpr (kL.minimum != Minimum::kNone) {
        const float scaled_sum = kL.subs() == 1 ? x[p].scaled_sum : x[p].scale * static_cast<float>(sum);
        acc = fma(source.minimum(sub), f32_set(scaled_sum), acc);
      }
    }
  }
  f32_store(tile.out[0], acc);
}

template <F32 (*kLoad)(const void*), int kBytes>
void float_strip(const uint8_t* weights, int k, const TokenTile& tile) {
  F32 acc = f32_zero();
  for (int i = 0; i < k; ++i) {
    acc = fma(kLoad(weights + static_cast<int64_t>(i) * kStripRows * kBytes), f32_set(tile.floats[0][i]), acc);
  }
  f32_store(tile.out[0], acc);
}

F32 load_f32(const void* p) { return f32_load(static_cast<const float*>(p)); }
F32 load_f16(const void* p) { return f16_load(static_cast<const uint16_t*>(p)); }
F32 load_bf16(const void* p) { return bf16_load(static_cast<const uint16_t*>(p)); }

template <PackedLayout kL>
constexpr TypeKernels quantised() {
  TypeKernels out = {};
  out.packed[0] = strip<kL>;
  return out;
}

template <F32 (*kLoad)(const void*), int kBytes>
constexpr TypeKernels floats() {
  TypeKernels out = {};
  out.packed[0] = float_strip<kLoad, kBytes>;
  return out;
}

}  // namespace

constexpr MatmulKernels kPortableMatmul = {
    Isa::kPortable,
    1,
    false,
    {floats<load_f32, 4>(), floats<load_f16, 2>(), floats<load_bf16, 2>(), quantised<kQ8_0Layout>(),
     quantised<kQ4_0Layout>(), quantised<kQ4_1Layout>(), quantised<kQ5_0Layout>(), quantised<kQ5_1Layout>(),
     quantised<kQ2_KLayout>(), quantised<kQ3_KLayout>(), quantised<kQ4_KLayout>(), quantised<kQ5_KLayout>(),
     quantised<kQ6_KLayout>(), quantised<kIQ4_NLLayout>(), quantised<kIQ4_XSLayout>()}};

}  // namespace dspark
