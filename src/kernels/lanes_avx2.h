// The 16 virtual lanes on AVX2 with FMA and F16C: two registers each, lanes 0-7 and 8-15. Included only by the
// *_avx2.cc files (see lanes_portable.h for what every operation means).
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace dspark {
namespace {

struct F32 {
  __m256 a, b;
};
struct I32 {
  __m256i a, b;
};
struct Mask {
  __m256 a, b;
};
struct Wide {
  __m256i a, b;
};
struct Codes {
  __m256i a, b;
};

inline F32 f32_load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void f32_store(float* p, F32 x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
inline F32 f32_set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline F32 f32_zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline F32 operator+(F32 x, F32 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline F32 operator-(F32 x, F32 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline F32 operator*(F32 x, F32 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline F32 operator/(F32 x, F32 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline F32 fma(F32 x, F32 y, F32 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
inline F32 min(F32 x, F32 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline F32 max(F32 x, F32 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline F32 abs(F32 x) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  return {_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask)};
}
inline I32 max(I32 x, I32 y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
inline Mask less(F32 x, F32 y) { return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)}; }
inline Mask is_nan(F32 x) { return {_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q), _mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q)}; }
inline Mask equal(I32 x, I32 y) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(x.a, y.a)), _mm256_castsi256_ps(_mm256_cmpeq_epi32(x.b, y.b))};
}
inline Mask less(I32 x, I32 y) {
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(y.a, x.a)), _mm256_castsi256_ps(_mm256_cmpgt_epi32(y.b, x.b))};
}
inline F32 select(Mask m, F32 x, F32 y) { return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)}; }
inline I32 select(Mask m, I32 x, I32 y) {
  return {_mm256_blendv_epi8(y.a, x.a, _mm256_castps_si256(m.a)),
          _mm256_blendv_epi8(y.b, x.b, _mm256_castps_si256(m.b))};
}
inline F32 zero_if(Mask m, F32 x) { return {_mm256_andnot_ps(m.a, x.a), _mm256_andnot_ps(m.b, x.b)}; }
inline uint32_t bits(Mask m) {
  return static_cast<uint32_t>(_mm256_movemask_ps(m.a)) | static_cast<uint32_t>(_mm256_movemask_ps(m.b)) << 8;
}
inline bool any(Mask m) { return bits(m) != 0; }

inline __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store256(void* p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
inline __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline void store128(void* p, __m128i x) { _mm_storeu_si128(static_cast<__m128i*>(p), x); }

inline I32 i32_load(const int32_t* p) { return {load256(p), load256(p + 8)}; }
inline void i32_store(int32_t* p, I32 x) { store256(p, x.a), store256(p + 8, x.b); }
inline I32 i32_set(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline I32 operator+(I32 x, I32 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
inline I32 operator-(I32 x, I32 y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
inline I32 operator&(I32 x, I32 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
inline I32 operator^(I32 x, I32 y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
template <int kShift>
inline I32 shift_left(I32 x) {
  return {_mm256_slli_epi32(x.a, kShift), _mm256_slli_epi32(x.b, kShift)};
}
template <int kShift>
inline I32 shift_right(I32 x) {
  return {_mm256_srli_epi32(x.a, kShift), _mm256_srli_epi32(x.b, kShift)};
}
inline F32 to_f32(I32 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
inline I32 to_i32(F32 x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
inline F32 as_f32(I32 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
inline I32 as_i32(F32 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }

inline Wide wide_load(const uint64_t* p) { return {load256(p), load256(p + 4)}; }
inline Wide wide_set(uint64_t x) {
  const __m256i v = _mm256_set1_epi64x(static_cast<int64_t>(x));
  return {v, v};
}
inline Wide operator^(Wide x, Wide y) { return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)}; }
inline Wide operator+(Wide x, Wide y) { return {_mm256_add_epi64(x.a, y.a), _mm256_add_epi64(x.b, y.b)}; }
inline Wide min_u16(Wide x, Wide y) { return {_mm256_min_epu16(x.a, y.a), _mm256_min_epu16(x.b, y.b)}; }
inline Wide multiply_low(Wide x, Wide y) { return {_mm256_mul_epu32(x.a, y.a), _mm256_mul_epu32(x.b, y.b)}; }
inline Wide high_half(Wide x) { return {_mm256_srli_epi64(x.a, 32), _mm256_srli_epi64(x.b, 32)}; }
inline I32 interleave_low(Wide even, Wide odd) {
  return {_mm256_blend_epi32(even.a, _mm256_slli_epi64(odd.a, 32), 0xAA),
          _mm256_blend_epi32(even.b, _mm256_slli_epi64(odd.b, 32), 0xAA)};
}

inline F32 f16_load(const uint16_t* p) { return {_mm256_cvtph_ps(load128(p)), _mm256_cvtph_ps(load128(p + 8))}; }
inline void f16_store(uint16_t* p, F32 x) {
  store128(p, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
  store128(p + 8, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
}
inline __m256 bf16_load8(const uint16_t* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
}
inline F32 bf16_load(const uint16_t* p) { return {bf16_load8(p), bf16_load8(p + 8)}; }
inline F32 i8_load(const int8_t* p) {
  const __m128i x = load128(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(x, 8)))};
}
inline I32 u8_load(const uint8_t* p) {
  const __m128i x = load128(p);
  return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8))};
}
// 16 x 16 bit: lanes in order.
inline __m256i i32_to_i16(I32 x) { return _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8); }
inline void i16_store_0213(int16_t* p, I32 x) {
  store256(p, i32_to_i16({_mm256_shuffle_epi32(x.a, 0xD8), _mm256_shuffle_epi32(x.b, 0xD8)}));
}
// 32 values of -128 to 127 as bytes; sums[0] of the first 16, sums[1] of all.
inline void i8_store(int8_t* p, I32 low, I32 high, int32_t* sums) {
  const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(low.a, low.b), _mm256_packs_epi32(high.a, high.b));
  const __m256i q = _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  store256(p, q);
  // Sums of bytes without a sign, each 128 too large.
  const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m256i sixteens = _mm256_add_epi64(eights, _mm256_unpackhi_epi64(eights, eights));
  sums[0] = _mm256_cvtsi256_si32(sixteens) - 16 * 128;
  sums[1] = sums[0] + _mm_cvtsi128_si32(_mm256_extracti128_si256(sixteens, 1)) - 16 * 128;
}

inline float lanes_sum(F32 v) {
  const __m256 x = _mm256_add_ps(v.a, v.b);
  const __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 z = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_shuffle_ps(z, z, 1)));
}
inline int32_t lanes_max(I32 v) {
  const __m256i x = _mm256_max_epi32(v.b, v.a);
  const __m128i y = _mm_max_epi32(_mm256_extracti128_si256(x, 1), _mm256_castsi256_si128(x));
  const __m128i z = _mm_max_epi32(_mm_unpackhi_epi64(y, y), y);
  return _mm_cvtsi128_si32(_mm_max_epi32(_mm_shuffle_epi32(z, 1), z));
}
inline float lanes_max(F32 v) {
  const __m256 x = _mm256_max_ps(v.b, v.a);
  const __m128 y = _mm_max_ps(_mm256_extractf128_ps(x, 1), _mm256_castps256_ps128(x));
  const __m128 z = _mm_max_ps(_mm_movehl_ps(y, y), y);
  return _mm_cvtss_f32(_mm_max_ss(_mm_shuffle_ps(z, z, 1), z));
}

inline Codes codes_load(const uint8_t* p) { return {load256(p), load256(p + 32)}; }
inline void codes_store(uint8_t* p, Codes x) { store256(p, x.a), store256(p + 32, x.b); }
inline Codes operator&(Codes x, Codes y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
inline Codes operator|(Codes x, Codes y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
inline Codes codes_set(uint8_t x) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(x));
  return {v, v};
}
template <int kShift>
inline Codes shift_right(Codes x) {
  return {_mm256_srli_epi16(x.a, kShift), _mm256_srli_epi16(x.b, kShift)};
}
template <int kShift>
inline Codes shift_left(Codes x) {
  return {_mm256_slli_epi16(x.a, kShift), _mm256_slli_epi16(x.b, kShift)};
}
inline Codes codes_lookup(const uint8_t* table16, Codes x) {
  const __m256i table = _mm256_broadcastsi128_si256(load128(table16));
  return {_mm256_shuffle_epi8(table, x.a), _mm256_shuffle_epi8(table, x.b)};
}

}  // namespace
}  // namespace dspark
