// See peak.h. Workers only.
#include "kernels/peak.h"

#include <immintrin.h>

namespace dspark {
namespace {

constexpr int kChains = 8;

// Keeps the compiler from merging work on x: to it, x changes here.
inline void opaque(__m256i& x) { asm volatile("" : "+x"(x)); }

int32_t fold(const __m256i* sums) {
  __m256i total = _mm256_setzero_si256();
  for (int i = 0; i < kChains; ++i) total = _mm256_add_epi32(total, sums[i]);
  return _mm256_extract_epi32(total, 0) + _mm256_extract_epi32(total, 5);
}

int64_t narrow(int64_t rounds, int32_t* sink) {
  __m256i w = _mm256_set1_epi8(3), x = _mm256_set1_epi8(1), sums[kChains] = {};
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) {
      opaque(x);
      const __m256i product = _mm256_maddubs_epi16(w, x);
      sums[c] = _mm256_add_epi16(sums[c], product);
    }
  }
  *sink += fold(sums);
  return rounds * kChains * 32;
}

int64_t wide(int64_t rounds, int32_t* sink) {
  __m256i w = _mm256_set1_epi16(3), x = _mm256_set1_epi16(1), sums[kChains] = {};
  for (int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
    for (int c = 0; c < kChains; ++c) {
      opaque(x);
      const __m256i product = _mm256_madd_epi16(w, x);
      sums[c] = _mm256_add_epi32(sums[c], product);
    }
  }
  *sink += fold(sums);
  return rounds * kChains * 16;
}

int64_t floats(int64_t rounds, int32_t* sink) {
  __m256 w = _mm256_set1_ps(1e-9f), x = _mm256_set1_ps(1.0f), sums[12] = {};
  // Separate values to the compiler, which would compute one chain otherwise.
  for (int c = 0; c < 12; ++c) asm volatile("" : "+x"(sums[c]));
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(w), "+x"(x));
#pragma GCC unroll 12
    for (int c = 0; c < 12; ++c) sums[c] = _mm256_fmadd_ps(w, x, sums[c]);
  }
  for (int c = 0; c < 12; ++c) *sink += static_cast<int32_t>(_mm256_cvtss_f32(sums[c]));
  return rounds * 12 * 8;
}

}  // namespace

constexpr PeakLoops kAvx2Peak = {narrow, wide, floats};

int64_t sum_avx2(const uint8_t* data, int64_t bytes) {
  // Some kilobytes ahead into L2, as the matrix kernels do: the prefetchers of the hardware alone may reach half.
  constexpr int64_t kAhead = 8 * 1024;
  __m256i a = {}, b = {}, c = {}, d = {};
  const auto load = [](const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); };
  for (const uint8_t *p = data, *end = data + bytes; p < end; p += 128) {
    __builtin_prefetch(p + kAhead, 0, 2);
    __builtin_prefetch(p + kAhead + 64, 0, 2);
    a = _mm256_add_epi64(a, load(p));
    b = _mm256_add_epi64(b, load(p + 32));
    c = _mm256_add_epi64(c, load(p + 64));
    d = _mm256_add_epi64(d, load(p + 96));
  }
  const __m256i total = _mm256_add_epi64(_mm256_add_epi64(a, b), _mm256_add_epi64(c, d));
  return _mm256_extract_epi64(total, 0) + _mm256_extract_epi64(total, 1) + _mm256_extract_epi64(total, 2) +
         _mm256_extract_epi64(total, 3);
}

}  // namespace dspark
