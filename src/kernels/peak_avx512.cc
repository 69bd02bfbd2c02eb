// See peak.h. Workers only.
#include "kernels/peak.h"

#include <immintrin.h>

namespace dspark {
namespace {

constexpr int kChains = 16;

// Keeps the compiler from seeing that all chains hold the same value: it would compute one.
template <class Vector>
inline void separate(Vector* sums) {
  for (int c = 0; c < kChains; ++c) asm volatile("" : "+v"(sums[c]));
}

int64_t dots(int64_t rounds, int32_t* sink) {
  __m512i w = _mm512_set1_epi8(3), x = _mm512_set1_epi8(1), sums[kChains] = {};
  separate(sums);
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(w), "+v"(x));
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbusd_epi32(sums[c], w, x);
  }
  for (int c = 0; c < kChains; ++c) *sink += _mm512_reduce_add_epi32(sums[c]);
  return rounds * kChains * 64;
}

int64_t floats(int64_t rounds, int32_t* sink) {
  __m512 w = _mm512_set1_ps(1e-9f), x = _mm512_set1_ps(1.0f), sums[kChains] = {};
  separate(sums);
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(w), "+v"(x));
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_fmadd_ps(w, x, sums[c]);
  }
  for (int c = 0; c < kChains; ++c) *sink += static_cast<int32_t>(_mm512_reduce_add_ps(sums[c]));
  return rounds * kChains * 16;
}

}  // namespace

constexpr PeakLoops kAvx512Peak = {dots, dots, floats};

}  // namespace dspark
