// The 16 virtual lanes on AVX-512: one register each. Included only by the *_avx512.cc files (see lanes_portable.h
// for what every operation means).
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace dspark {
namespace {

struct F32 {
  __m512 v;
};
struct I32 {
  __m512i v;
};
struct Mask {
  __mmask16 v;
};
struct Wide {
  __m512i v;
};
struct Codes {
  __m512i v;
};

inline F32 f32_load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void f32_store(float* p, F32 a) { _mm512_storeu_ps(p, a.v); }
inline F32 f32_set(float x) { return {_mm512_set1_ps(x)}; }
inline F32 f32_zero() { return {_mm512_setzero_ps()}; }
inline F32 operator+(F32 a, F32 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32 operator-(F32 a, F32 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32 operator*(F32 a, F32 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32 operator/(F32 a, F32 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32 fma(F32 a, F32 b, F32 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32 min(F32 a, F32 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32 max(F32 a, F32 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32 abs(F32 a) { return {_mm512_abs_ps(a.v)}; }
inline I32 max(I32 a, I32 b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline Mask less(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask is_nan(F32 a) { return {_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q)}; }
inline Mask equal(I32 a, I32 b) { return {_mm512_cmpeq_epi32_mask(a.v, b.v)}; }
inline Mask less(I32 a, I32 b) { return {_mm512_cmplt_epi32_mask(a.v, b.v)}; }
inline F32 select(Mask m, F32 a, F32 b) { return {_mm512_mask_blend_ps(m.v, b.v, a.v)}; }
inline I32 select(Mask m, I32 a, I32 b) { return {_mm512_mask_blend_epi32(m.v, b.v, a.v)}; }
inline F32 zero_if(Mask m, F32 a) { return {_mm512_maskz_mov_ps(_knot_mask16(m.v), a.v)}; }
inline bool any(Mask m) { return m.v != 0; }
inline uint32_t bits(Mask m) { return m.v; }

inline I32 i32_load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline void i32_store(int32_t* p, I32 a) { _mm512_storeu_si512(p, a.v); }
inline I32 i32_set(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline I32 operator+(I32 a, I32 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32 operator-(I32 a, I32 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I32 operator&(I32 a, I32 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32 operator^(I32 a, I32 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int kShift>
inline I32 shift_left(I32 a) {
  return {_mm512_slli_epi32(a.v, kShift)};
}
template <int kShift>
inline I32 shift_right(I32 a) {
  return {_mm512_srli_epi32(a.v, kShift)};
}
inline F32 to_f32(I32 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32 to_i32(F32 a) { return {_mm512_cvtps_epi32(a.v)}; }
inline F32 as_f32(I32 a) { return {_mm512_castsi512_ps(a.v)}; }
inline I32 as_i32(F32 a) { return {_mm512_castps_si512(a.v)}; }

inline Wide wide_load(const uint64_t* p) { return {_mm512_loadu_si512(p)}; }
inline Wide wide_set(uint64_t x) { return {_mm512_set1_epi64(static_cast<int64_t>(x))}; }
inline Wide operator^(Wide a, Wide b) { return {_mm512_xor_si512(a.v, b.v)}; }
inline Wide operator+(Wide a, Wide b) { return {_mm512_add_epi64(a.v, b.v)}; }
inline Wide min_u16(Wide a, Wide b) { return {_mm512_min_epu16(a.v, b.v)}; }
inline Wide multiply_low(Wide a, Wide b) { return {_mm512_mul_epu32(a.v, b.v)}; }
inline Wide high_half(Wide a) { return {_mm512_srli_epi64(a.v, 32)}; }
inline I32 interleave_low(Wide even, Wide odd) {
  return {_mm512_mask_blend_epi32(0xAAAA, even.v, _mm512_slli_epi64(odd.v, 32))};
}

inline F32 f16_load(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline void f16_store(uint16_t* p, F32 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}
inline F32 bf16_load(const uint16_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}
inline F32 i8_load(const int8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))))};
}
inline I32 u8_load(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
// Keeps the low byte of each lane (values within int8).
// 32 values of -128 to 127 as bytes; sums[0] of the first 16, sums[1] of all.
inline void i8_store(int8_t* p, I32 low, I32 high, int32_t* sums) {
  const __m256i q =
      _mm256_inserti128_si256(_mm256_castsi128_si256(_mm512_cvtepi32_epi8(low.v)), _mm512_cvtepi32_epi8(high.v), 1);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), q);
  // Sums of bytes without a sign, each 128 too large.
  const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(q, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m256i sixteens = _mm256_add_epi64(eights, _mm256_unpackhi_epi64(eights, eights));
  sums[0] = _mm256_cvtsi256_si32(sixteens) - 16 * 128;
  sums[1] = sums[0] + _mm_cvtsi128_si32(_mm256_extracti128_si256(sixteens, 1)) - 16 * 128;
}
inline void i16_store_0213(int16_t* p, I32 a) {
  const __m512i swapped = _mm512_shuffle_epi32(a.v, static_cast<_MM_PERM_ENUM>(0xD8));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(swapped));
}

inline float lanes_sum(F32 a) {
  const __m256 x = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 z = _mm_add_ps(y, _mm_movehl_ps(y, y));
  return _mm_cvtss_f32(_mm_add_ss(z, _mm_shuffle_ps(z, z, 1)));
}
inline int32_t lanes_max(I32 a) {
  const __m256i x = _mm256_max_epi32(_mm512_extracti32x8_epi32(a.v, 1), _mm512_castsi512_si256(a.v));
  const __m128i y = _mm_max_epi32(_mm256_extracti128_si256(x, 1), _mm256_castsi256_si128(x));
  const __m128i z = _mm_max_epi32(_mm_unpackhi_epi64(y, y), y);
  return _mm_cvtsi128_si32(_mm_max_epi32(_mm_shuffle_epi32(z, 1), z));
}
inline float lanes_max(F32 a) {
  const __m256 x = _mm256_max_ps(_mm512_extractf32x8_ps(a.v, 1), _mm512_castps512_ps256(a.v));
  const __m128 y = _mm_max_ps(_mm256_extractf128_ps(x, 1), _mm256_castps256_ps128(x));
  const __m128 z = _mm_max_ps(_mm_movehl_ps(y, y), y);
  return _mm_cvtss_f32(_mm_max_ss(_mm_shuffle_ps(z, z, 1), z));
}

inline Codes codes_load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
inline void codes_store(uint8_t* p, Codes a) { _mm512_storeu_si512(p, a.v); }
inline Codes operator&(Codes a, Codes b) { return {_mm512_and_si512(a.v, b.v)}; }
inline Codes operator|(Codes a, Codes b) { return {_mm512_or_si512(a.v, b.v)}; }
inline Codes codes_set(uint8_t x) { return {_mm512_set1_epi8(static_cast<char>(x))}; }
// Shifts 16-bit pieces: the caller masks what crosses a byte.
template <int kShift>
inline Codes shift_right(Codes a) {
  return {_mm512_srli_epi16(a.v, kShift)};
}
template <int kShift>
inline Codes shift_left(Codes a) {
  return {_mm512_slli_epi16(a.v, kShift)};
}
// table[code] for codes below 16.
inline Codes codes_lookup(const uint8_t* table16, Codes a) {
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table16));
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), a.v)};
}

}  // namespace
}  // namespace dspark
