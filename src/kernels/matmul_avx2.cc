// The matrix product on AVX2, FMA and F16C. Equal to matmul_portable.cc bit for bit: integer dots are exact, floats
// go through the same operations in the same order. Workers only.
#include <utility>

#include "kernels/lanes_avx2.h"
#include "kernels/matmul_kernels.h"
#include "kernels/packed_layout.h"
#include "kernels/weights.inl"

namespace dspark {
namespace {

// Pins a sum in its register: g++ otherwise regroups integer adds, holds every product at once and spills them.
inline void pin(__m256i& x) { asm("" : "+x"(x)); }

inline __m256i broadcast4(const void* p) { return _mm256_set1_epi32(*static_cast<const int32_t*>(p)); }

template <PackedLayout kL>
inline int32_t activation_sum(const ActivationBlock& x, int sub) {
  if constexpr (kL.subs() == 1) return x.sum;
  return sub == 0 ? x.sum_low : x.sum - x.sum_low;
}

template <PackedLayout kL>
inline float activation_scaled_sum(const ActivationBlock& x, int sub) {
  if constexpr (kL.subs() == 1) return x.scaled_sum;
  return x.scale * static_cast<float>(activation_sum<kL>(x, sub));
}

// How many groups 16 bits can hold: each maddubs adds at most 2 * code_max * 127.
template <PackedLayout kL>
constexpr int groups_in_16_bits() {
  const int fit = 32767 / (2 * kL.code_max * 127);
  const int groups = kL.sub / 4;
  return fit >= 8 && groups >= 8 ? 8 : fit >= 4 ? 4 : 2;
}

// 0, 4, 1, 5, ...: both nibbles of a plane while it is in its register.
constexpr int both_nibbles(int g) { return g % 2 * 4 + g / 2; }

// Codes of at most 6 bits, groups kFirst.. kFirst + kCount - 1: unsigned x signed bytes, summed in 16 bits.
template <PackedLayout kL, int kT, int kFirst, int kCount, class Source>
inline void narrow_dots(const Source& source, const ActivationBlock* const* x, I32* dot) {
  __m256i a[kT], b[kT];  // 16-bit sums of rows 0-7 and 8-15
  [&]<int... kG>(std::integer_sequence<int, kG...>) {
    (
        [&] {
          constexpr int kGroup = kCount == kGroups ? both_nibbles(kG) : kFirst + kG;
          const Codes w = source.template codes<kGroup>();
          for (int t = 0; t < kT; ++t) {
            const __m256i q = broadcast4(x[t]->q + 4 * kGroup);
            const __m256i pa = _mm256_maddubs_epi16(w.a, q);
            const __m256i pb = _mm256_maddubs_epi16(w.b, q);
            a[t] = kG == 0 ? pa : _mm256_add_epi16(a[t], pa);
            b[t] = kG == 0 ? pb : _mm256_add_epi16(b[t], pb);
            pin(a[t]), pin(b[t]);
          }
        }(),
        ...);
  }
  (std::make_integer_sequence<int, kCount>());
  const __m256i ones = _mm256_set1_epi16(1);
  for (int t = 0; t < kT; ++t) {
    const I32 wide = {_mm256_madd_epi16(a[t], ones), _mm256_madd_epi16(b[t], ones)};
    dot[t] = dot[t] + wide;
  }
}

// 8-bit codes: widened to 16 bits, as pairs (k0, k2) and (k1, k3) to match Activations::wide.
template <int kT, class Source>
inline void wide_dots(const Source& source, const int16_t* const* wide, int64_t k, I32* dot) {
  const __m256i low = _mm256_set1_epi16(0xFF);
  [&]<int... kG>(std::integer_sequence<int, kG...>) {
    (
        [&] {
          const Codes w = source.template codes<kG>();
          const __m256i a02 = _mm256_and_si256(w.a, low), a13 = _mm256_srli_epi16(w.a, 8);
          const __m256i b02 = _mm256_and_si256(w.b, low), b13 = _mm256_srli_epi16(w.b, 8);
          for (int t = 0; t < kT; ++t) {
            const __m256i q02 = broadcast4(wide[t] + k + 4 * kG), q13 = broadcast4(wide[t] + k + 4 * kG + 2);
            dot[t].a = _mm256_add_epi32(dot[t].a, _mm256_madd_epi16(a02, q02));
            dot[t].b = _mm256_add_epi32(dot[t].b, _mm256_madd_epi16(b02, q02));
            pin(dot[t].a), pin(dot[t].b);
            dot[t].a = _mm256_add_epi32(dot[t].a, _mm256_madd_epi16(a13, q13));
            dot[t].b = _mm256_add_epi32(dot[t].b, _mm256_madd_epi16(b13, q13));
            pin(dot[t].a), pin(dot[t].b);
          }
        }(),
        ...);
  }
  (std::make_integer_sequence<int, kGroups>());
}

template <PackedLayout kL, int kT, int kSub, class Source>
inline void accumulate(const Source& source, const ActivationBlock* const* x, const int16_t* const* wide, int p,
                       F32* acc) {
  I32 dot[kT];
  for (int t = 0; t < kT; ++t) dot[t] = i32_set(-kL.offset * activation_sum<kL>(*x[t], kSub));
  if constexpr (kL.code_max > 63) {
    wide_dots<kT>(source, wide, static_cast<int64_t>(p) * kPiece, dot);
  } else {
    constexpr int kFlush = groups_in_16_bits<kL>();
    constexpr int kSubGroups = kL.sub / 4;
    [&]<int... kF>(std::integer_sequence<int, kF...>) {
      (narrow_dots<kL, kT, kSub * kSubGroups + kF * kFlush, kFlush>(source, x, dot), ...);
    }
    (std::make_integer_sequence<int, kSubGroups / kFlush>());
  }
  const F32 scale = source.scale(kSub);
  for (int t = 0; t < kT; ++t) acc[t] = fma(scale * f32_set(x[t]->scale), to_f32(dot[t]), acc[t]);
  if constexpr (kL.minimum != Minimum::kNone) {
    const F32 minimum = source.minimum(kSub);
    for (int t = 0; t < kT; ++t) acc[t] = fma(minimum, f32_set(activation_scaled_sum<kL>(*x[t], kSub)), acc[t]);
  }
}

template <PackedLayout kL, int kT, class Source>
void strip(const uint8_t* weights, int pieces, const TokenTile& tile) {
  const ActivationBlock* x[kT];
  const int16_t* wide[kT];
  F32 acc[kT];
  for (int t = 0; t < kT; ++t) x[t] = tile.blocks[t], wide[t] = tile.wide[t], acc[t] = f32_zero();
  Source source(weights, 0);
  const uint8_t* next = tile.next;
  for (int p = 0; p < pieces; source.advance(++p)) {
    accumulate<kL, kT, 0>(source, x, wide, p, acc);
    if constexpr (kL.subs() == 2) accumulate<kL, kT, 1>(source, x, wide, p, acc);
    for (int t = 0; t < kT; ++t) ++x[t];
    next = fetch(next, tile.next_bytes);
  }
  for (int t = 0; t < kT; ++t) f32_store(tile.out[t], acc[t]);
}

// Two strips at a time keep twice as many sums in flight: one token alone waits for the latency of each add.
template <F32 (*kLoad)(const void*), int kBytes, int kS, int kT>
inline void float_strips(const uint8_t* weights, int64_t stride, int k, const TokenTile& tile) {
  F32 acc[kS][kT];
  for (int s = 0; s < kS; ++s) {
    for (int t = 0; t < kT; ++t) acc[s][t] = f32_zero();
  }
  for (int i = 0; i < k; ++i) {
    for (int s = 0; s < kS; ++s) {
      const F32 w = kLoad(weights + s * stride + static_cast<int64_t>(i) * kStripRows * kBytes);
      for (int t = 0; t < kT; ++t) acc[s][t] = fma(w, f32_set(tile.floats[t][i]), acc[s][t]);
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

constexpr int kTile = 4;

template <PackedLayout kL>
constexpr TypeKernels quantised() {
  TypeKernels out = {};
  [&]<int... kT>(std::integer_sequence<int, kT...>) {
    ((out.packed[kT] = strip<kL, kT + 1, PackedSource<kL>>), ...);
    ((out.unpacked[kT] = strip<kL, kT + 1, UnpackedSource<kL>>), ...);
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
    ((out.packed_pair[kT] = kT < 2 ? float_strip_pair<kLoad, kBytes, kT + 1> : nullptr), ...);
  }
  (std::make_integer_sequence<int, kTile>());
  return out;
}

}  // namespace

constexpr MatmulKernels kAvx2Matmul = {
    Isa::kAvx2,
    kTile,
    true,
    {floats<load_f32, 4>(), floats<load_f16, 2>(), floats<load_bf16, 2>(), quantised<kQ8_0Layout>(),
     quantised<kQ4_0Layout>(), quantised<kQ4_1Layout>(), quantised<kQ5_0Layout>(), quantised<kQ5_1Layout>(),
     quantised<kQ2_KLayout>(), quantised<kQ3_KLayout>(), quantised<kQ4_KLayout>(), quantised<kQ5_KLayout>(),
     quantised<kQ6_KLayout>(), quantised<kIQ4_NLLayout>(), quantised<kIQ4_XSLayout>()}};

}  // namespace dspark
