// The matrix product on AVX-512 with VNNI. Equal to matmul_portable.cc bit for bit: integer dots are exact, floats go
// through the same operations in the same order. Workers only.
#include <utility>

#include "kernels/lanes_avx512.h"
#include "kernels/matmul_kernels.h"
#include "kernels/packed_layout.h"
#include "kernels/weights.inl"

namespace dspark {
namespace {

template <PackedLayout kL>
inline I32 activation_sum(const ActivationBlock& x, int sub) {
  if constexpr (kL.subs() == 1) return i32_set(x.sum);
  return sub == 0 ? i32_set(x.sum_low) : i32_set(x.sum) - i32_set(x.sum_low);
}

// -offset * sum, where every vpdpbusd sum starts.
template <PackedLayout kL>
inline I32 correction(const ActivationBlock& x, int sub) {
  if constexpr (kL.offset == 0) return i32_set(0);
  constexpr int kShift = __builtin_ctz(kL.offset == 0 ? 1 : kL.offset);
  static_assert(kL.offset == 0 || kL.offset == 1 << kShift);
  return i32_set(0) - shift_left<kShift>(activation_sum<kL>(x, sub));
}

// One scale's worth of K (kSub of the piece) for kS strips x kT tokens.
template <PackedLayout kL, int kS, int kT, int kSub, class Source>
inline void accumulate(const Source* source, const ActivationBlock* const* x, F32 acc[kS][kT]) {
  I32 dot[kS][kT];
  for (int t = 0; t < kT; ++t) {
    const I32 start = correction<kL>(*x[t], kSub);
    for (int s = 0; s < kS; ++s) dot[s][t] = start;
  }
  constexpr int kSubGroups = kL.sub / 4;
  [&]<int... kG>(std::integer_sequence<int, kG...>) {
    (
        [&] {
          Codes w[kS];
          for (int s = 0; s < kS; ++s) w[s] = source[s].template codes<kSub * kSubGroups + kG>();
          for (int t = 0; t < kT; ++t) {
            const __m512i q =
                _mm512_set1_epi32(*reinterpret_cast<const int32_t*>(x[t]->q + 4 * (kSub * kSubGroups + kG)));
            for (int s = 0; s < kS; ++s) dot[s][t].v = _mm512_dpbusd_epi32(dot[s][t].v, w[s].v, q);
          }
        }(),
        ...);
  }
  (std::make_integer_sequence<int, kSubGroups>());
  for (int s = 0; s < kS; ++s) {
    const F32 scale = source[s].scale(kSub);
    for (int t = 0; t < kT; ++t) acc[s][t] = fma(scale * f32_set(x[t]->scale), to_f32(dot[s][t]), acc[s][t]);
  }
  if constexpr (kL.minimum != Minimum::kNone) {
    for (int s = 0; s < kS; ++s) {
      const F32 minimum = source[s].minimum(kSub);
      for (int t = 0; t < kT; ++t) {
        const F32 sum =
            kL.subs() == 1 ? f32_set(x[t]->scaled_sum) : f32_set(x[t]->scale) * to_f32(activation_sum<kL>(*x[t], kSub));
        acc[s][t] = fma(minimum, sum, acc[s][t]);
      }
    }
  }
}

template <PackedLayout kL, int kS, int kT, class Source>
inline void strips(const uint8_t* weights, int64_t stride, int pieces, const TokenTile& tile) {
  const ActivationBlock* x[kT];
  for (int t = 0; t < kT; ++t) x[t] = tile.blocks[t];
  F32 acc[kS][kT];
  for (int s = 0; s < kS; ++s) {
    for (int t = 0; t < kT; ++t) acc[s][t] = f32_zero();
  }
  Source source[2] = {Source(weights, 0), Source(weights + stride, 0)};
  const uint8_t* next = tile.next;
  for (int p = 0; p < pieces;) {
    accumulate<kL, kS, kT, 0>(source, x, acc);
    if constexpr (kL.subs() == 2) accumulate<kL, kS, kT, 1>(source, x, acc);
    ++p;
    for (int s = 0; s < kS; ++s) source[s].advance(p);
    for (int t = 0; t < kT; ++t) ++x[t];
    next = fetch(next, tile.next_bytes);
  }
  for (int s = 0; s < kS; ++s) {
    for (int t = 0; t < kT; ++t) f32_store(tile.out[t] + s * kStripRows, acc[s][t]);
  }
}

template <PackedLayout kL, int kT, class Source>
void strip(const uint8_t* weights, int pieces, const TokenTile& tile) {
  strips<kL, 1, kT, Source>(weights, 0, pieces, tile);
}
template <PackedLayout kL, int kT, class Source>
void strip_pair(const uint8_t* weights, int64_t stride, int pieces, const TokenTile& tile) {
  strips<kL, 2, kT, Source>(weights, stride, pieces, tile);
}

template <F32 (*kLoad)(const void*), int kBytes, int kS, int kT>
inline void float_strips(const uint8_t* weights, int64_t stride, int k, const TokenTile& tile) {
  F32 acc[kS][kT];
  for (int s = 0; s < kS; ++s) {
    for (int t = 0; t < kT; ++t) acc[s][t] = f32_zero();
  }
  for (int i = 0; i < k; ++i) {
    F32 w[kS];
    for (int s = 0; s < kS; ++s) w[s] = kLoad(weights + s * stride + static_cast<int64_t>(i) * kStripRows * kBytes);
    for (int t = 0; t < kT; ++t) {
      const F32 x = f32_set(tile.floats[t][i]);
      for (int s = 0; s < kS; ++s) acc[s][t] = fma(w[s], x, acc[s][t]);
    }
  }
  for (int s = 0; s < kS; ++s) {
    for (int t = 0; t < kT; ++t) f32_store(tile.out[t] + s * kStripRows, acc[s][t]);
  }
}

template <F32 (*kLoad)(const void*), int kBytes, int kT>
void float_strip(const uint8_t* weights, int k, const TokenTile& tile) {
  float_strips<kLoad, kBytes, 1, kT>(weights, 0, k, tile);
}
template <F32 (*kLoad)(const void*), int kBytes, int kT>
void float_strip_pair(const uint8_t* weights, int64_t stride, int k, const TokenTile& tile) {
  float_strips<kLoad, kBytes, 2, kT>(weights, stride, k, tile);
}

inline F32 load_f32(const void* p) { return f32_load(static_cast<const float*>(p)); }
inline F32 load_f16(const void* p) { return f16_load(static_cast<const uint16_t*>(p)); }
inline F32 load_bf16(const void* p) { return bf16_load(static_cast<const uint16_t*>(p)); }

constexpr int kTile = 6;

template <PackedLayout kL>
constexpr TypeKernels quantised() {
  TypeKernels out = {};
  [&]<int... kT>(std::integer_sequence<int, kT...>) {
    ((out.packed[kT] = strip<kL, kT + 1, PackedSource<kL>>), ...);
    ((out.packed_pair[kT] = strip_pair<kL, kT + 1, PackedSource<kL>>), ...);
    ((out.unpacked[kT] = strip<kL, kT + 1, UnpackedSource<kL>>), ...);
    ((out.unpacked_pair[kT] = strip_pair<kL, kT + 1, UnpackedSource<kL>>), ...);
  }
  (std::make_integer_sequence<int, kTile>());
  out.unpack = unpack_strip<kL>;
  out.unpacked_piece_bytes = UnpackedSource<kL>::kPieceBytes;
  return out;
}

template <F32 (*kLoad)(const void*), int kBytes>
constexpr TypeKernels floats() {
  TypeKernels out = {};
  [&]<int... kT>(std::integer_sequence<int, kT...>) {
    ((out.packed[kT] = float_strip<kLoad, kBytes, kT + 1>), ...);
    ((out.packed_pair[kT] = float_strip_pair<kLoad, kBytes, kT + 1>), ...);
  }
  (std::make_integer_sequence<int, kTile>());
  return out;
}

}  // namespace

constexpr MatmulKernels kAvx512Matmul = {
    Isa::kAvx512,
    kTile,
    false,
    {floats<load_f32, 4>(), floats<load_f16, 2>(), floats<load_bf16, 2>(), quantised<kQ8_0Layout>(),
     quantised<kQ4_0Layout>(), quantised<kQ4_1Layout>(), quantised<kQ5_0Layout>(), quantised<kQ5_1Layout>(),
     quantised<kQ2_KLayout>(), quantised<kQ3_KLayout>(), quantised<kQ4_KLayout>(), quantised<kQ5_KLayout>(),
     quantised<kQ6_KLayout>(), quantised<kIQ4_NLLayout>(), quantised<kIQ4_XSLayout>()}};

}  // namespace dspark
