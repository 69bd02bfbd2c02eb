// See free_order.h.
#include "kernels/free_order.h"

#include "kernels/lanes_avx2.h"
#include "kernels/packed_layout.h"
#include "kernels/vector_math.inl"
#include "kernels/weights.inl"

namespace dspark {

void free_rms_norm_avx2(const float* x, const float* weight, int n, float eps, float* out) {
  F32 sums[4] = {f32_zero(), f32_zero(), f32_zero(), f32_zero()};
  int i = 0;
  for (; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) {
      const F32 v = f32_load(x + i + 16 * j);
      sums[j] = fma(v, v, sums[j]);
    }
  }
  for (; i < n; i += 16) {
    const F32 v = n - i >= 16 ? f32_load(x + i) : load_part(x + i, n - i);
    sums[0] = fma(v, v, sums[0]);
  }
  const float mean = lanes_sum((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(n);
  const F32 factor = f32_set(1.0f / __builtin_sqrtf(mean + eps));
  map_lanes(
      n, out, [&](F32 value, F32 w) { return value * factor * w; }, x, weight);
}

namespace {

// acc += one piece of Q4_1.
[[gnu::always_inline]] inline void add_piece(const PackedSource<kQ4_1Layout>& source, const ActivationBlock& x,
                                             F32* acc) {
  __m256i a = _mm256_setzero_si256(), b = _mm256_setzero_si256();
  [&]<int... kG>(std::integer_sequence<int, kG...>) {
    (
        [&] {
          constexpr int kGroup = kG % 2 * 4 + kG / 2;
          const Codes w = source.codes<kGroup>();
          const __m256i q = _mm256_set1_epi32(*reinterpret_cast<const int32_t*>(x.q + 4 * kGroup));
          a = _mm256_add_epi16(a, _mm256_maddubs_epi16(w.a, q));
          b = _mm256_add_epi16(b, _mm256_maddubs_epi16(w.b, q));
        }(),
        ...);
  }
  (std::make_integer_sequence<int, kGroups>());
  const __m256i ones = _mm256_set1_epi16(1);
  const I32 dot = {_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones)};
  *acc = fma(source.scale(0) * f32_set(x.scale), to_f32(dot), *acc);
  *acc = fma(source.minimum(0), f32_set(x.scaled_sum), *acc);
}

}  // namespace

void free_q4_1_strip_avx2(const uint8_t* strip, int pieces, const ActivationBlock* x, float* out) {
  F32 even = f32_zero(), odd = f32_zero();
  int p = 0;
  for (; p + 2 <= pieces; p += 2) {
    add_piece(PackedSource<kQ4_1Layout>(strip, p), x[p], &even);
    add_piece(PackedSource<kQ4_1Layout>(strip, p + 1), x[p + 1], &odd);
  }
  if (p < pieces) add_piece(PackedSource<kQ4_1Layout>(strip, p), x[p], &even);
  f32_store(out, even + odd);
}

void free_f16_strip_avx2(const uint8_t* strip, int k, const float* x, float* out) {
  const uint16_t* w = reinterpret_cast<const uint16_t*>(strip);
  F32 sums[4] = {f32_zero(), f32_zero(), f32_zero(), f32_zero()};
  int i = 0;
  for (; i + 4 <= k; i += 4) {
    for (int j = 0; j < 4; ++j) sums[j] = fma(f16_load(w + (i + j) * kStripRows), f32_set(x[i + j]), sums[j]);
  }
  for (; i < k; ++i) sums[0] = fma(f16_load(w + i * kStripRows), f32_set(x[i]), sums[0]);
  f32_store(out, (sums[0] + sums[1]) + (sums[2] + sums[3]));
}

float free_exp_sum_avx2(const float* x, int64_t n, float max_value) {
  const F32 shift = f32_set(max_value);
  F32 sums[4] = {f32_zero(), f32_zero(), f32_zero(), f32_zero()};
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    for (int j = 0; j < 4; ++j) sums[j] = sums[j] + exp(f32_load(x + i + 16 * j) - shift);
  }
  return lanes_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace dspark
