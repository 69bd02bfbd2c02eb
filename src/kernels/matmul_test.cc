// Tests of matmul.h: every type against a double computation on the exact weights, and every instruction set, tile
// and thread count against the portable kernel, bit for bit.
#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/formats/format.h"
#include "kernels/ops.h"

namespace dspark {
namespace {

struct Case {
  DType type;
  int64_t n;
  int64_t k;
};

std::vector<DType> all_types() {
  std::vector<DType> out;
  for (int i = 0; i < kDTypeCount; ++i) out.push_back(static_cast<DType>(i));
  return out;
}

std::vector<Isa> isas_here() {
  std::vector<Isa> out;
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (isa_supported(isa)) out.push_back(isa);
  }
  return out;
}

std::vector<float> random_floats(int64_t count, uint32_t seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = normal(random);
  return out;
}

std::vector<uint8_t> random_weights(const Case& c, uint32_t seed) {
  const std::vector<float> floats = random_floats(c.n * c.k, seed, 0.1f);
  std::vector<uint8_t> out(static_cast<size_t>(dtype_bytes(c.type, c.n * c.k)));
  const int64_t row_bytes = dtype_bytes(c.type, c.k);
  for (int64_t r = 0; r < c.n; ++r) {
    format_of(c.type).quantise(floats.data() + r * c.k, c.k, out.data() + r * row_bytes);
  }
  return out;
}

// y [rows, n] of x [rows, k], computed by `isa` with `threads`.
std::vector<float> product(Isa isa, int threads, const Case& c, const std::vector<uint8_t>& weights,
                           const std::vector<float>& x, int rows) {
  ThreadPool pool({.threads = threads});
  Arena arena;
  const PackedMatrix packed = PackedMatrix::pack(pool, arena, c.type, c.n, c.k, weights.data());
  Activations activations;
  MatmulInput input = {.rows = rows};
  if (is_float(c.type)) {
    input.floats = x.data();
    input.stride = c.k;
  } else {
    activations.resize(rows, c.k);
    for (int r = 0; r < rows; ++r) {
      ops(isa).quantise(x.data() + r * c.k, c.k, activations.row(r), activations.wide_row(r));
    }
    input.quantised = &activations;
  }
  std::vector<float> y(static_cast<size_t>(rows * c.n), -1.0f);
  const MatmulJob job = {&packed, y.data(), c.n};
  matmul(pool, matmul_kernels(isa), input, {&job, 1});
  return y;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(&a[i], &b[i], 4) != 0) return false;
  }
  return a.size() == b.size();
}

TEST(Matmul, EqualsDoubleComputationOnTheSameInt8Activations) {
  for (DType type : all_types()) {
    const Case c = {type, 37, 512};
    const int rows = 3;
    const std::vector<uint8_t> weights = random_weights(c, 1);
    const std::vector<float> x = random_floats(rows * c.k, 2, 1.0f);
    const std::vector<float> y = product(Isa::kPortable, 1, c, weights, x, rows);
    std::vector<float> w(static_cast<size_t>(c.k));
    for (int64_t n = 0; n < c.n; ++n) {
      format_of(type).dequantise(weights.data() + n * dtype_bytes(type, c.k), c.k, w.data());
      for (int r = 0; r < rows; ++r) {
        double expected = 0.0, magnitude = 0.0;
        for (int64_t i = 0; i < c.k; ++i) {
          double value = x[static_cast<size_t>(r * c.k + i)];
          if (!is_float(type)) {
            // The same rounding as `quantise`, in plain arithmetic.
            float amax = 0.0f;
            for (int64_t j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) {
              amax = std::max(amax, std::fabs(x[static_cast<size_t>(r * c.k + j)]));
            }
            value = std::nearbyint(static_cast<float>(value) * (127.0f / amax)) * static_cast<double>(amax / 127.0f);
          }
          expected += value * static_cast<double>(w[static_cast<size_t>(i)]);
          magnitude += std::fabs(value * static_cast<double>(w[static_cast<size_t>(i)]));
        }
        EXPECT_NEAR(y[static_cast<size_t>(r * c.n + n)], expected, 1e-6 * magnitude + 1e-6)
            << dtype_info(type).name << " row " << r << " column " << n;
      }
    }
  }
}

TEST(Matmul, EveryIsaTileAndThreadCountGivesTheSameBits) {
  for (DType type : all_types()) {
    for (const Case& c : {Case{type, 16, 256}, Case{type, 53, 768}, Case{type, 1, 256}}) {
      const std::vector<uint8_t> weights = random_weights(c, 3);
      const int most = 19;
      const std::vector<float> x = random_floats(most * c.k, 4, 1.0f);
      const std::vector<float> expected = product(Isa::kPortable, 1, c, weights, x, most);
      for (Isa isa : isas_here()) {
        for (int threads : {1, 3}) {
          for (int rows : {1, 2, 3, 4, 5, 6, 7, 8, 13, most}) {
            const std::vector<float> y = product(isa, threads, c, weights, x, rows);
            const std::vector<float> part(expected.begin(), expected.begin() + rows * c.n);
            EXPECT_TRUE(same_bits(y, part)) << dtype_info(type).name << " " << isa_name(isa) << " n " << c.n << " k "
                                            << c.k << " rows " << rows << " threads " << threads;
          }
        }
      }
    }
  }
}

TEST(Matmul, ExtremeCodesDoNotOverflow) {
  // Every weight byte 0xFF and 0x00 with activations at +-127: the largest integer sums each type can meet.
  for (DType type : all_types()) {
    if (is_float(type)) continue;
    for (int fill : {0xFF, 0x00, 0x7F, 0x80}) {
      const Case c = {type, 16, 512};
      std::vector<uint8_t> weights(static_cast<size_t>(dtype_bytes(type, c.n * c.k)), static_cast<uint8_t>(fill));
      std::vector<float> x(static_cast<size_t>(c.k));
      for (size_t i = 0; i < x.size(); ++i) x[i] = i / 64 % 2 == 0 ? 1.0f : -1.0f;
      const std::vector<float> expected = product(Isa::kPortable, 1, c, weights, x, 1);
      for (Isa isa : isas_here()) {
        EXPECT_TRUE(same_bits(product(isa, 1, c, weights, x, 1), expected))
            << dtype_info(type).name << " " << isa_name(isa) << " fill " << fill;
      }
    }
  }
}

TEST(Matmul, SpecialActivationsStayInTheirRow) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (DType type : all_types()) {
    const Case c = {type, 20, 256};
    const std::vector<uint8_t> weights = random_weights(c, 5);
    const std::vector<float> clean = random_floats(5 * c.k, 6, 1.0f);
    std::vector<float> x = clean;
    x[1 * 256 + 40] = nan;
    x[2 * 256 + 250] = inf;
    for (int i = 0; i < 256; ++i) x[static_cast<size_t>(3 * 256 + i)] = 1e-42f;  // subnormal
    const std::vector<float> untouched = product(Isa::kPortable, 1, c, weights, clean, 5);
    const std::vector<float> expected = product(Isa::kPortable, 1, c, weights, x, 5);
    EXPECT_TRUE(std::isnan(expected[20])) << dtype_info(type).name;
    for (int n = 0; n < 20; ++n) {
      EXPECT_EQ(expected[static_cast<size_t>(n)], untouched[static_cast<size_t>(n)]);
      EXPECT_EQ(expected[static_cast<size_t>(80 + n)], untouched[static_cast<size_t>(80 + n)]);
    }
    for (Isa isa : isas_here()) {
      EXPECT_TRUE(same_bits(product(isa, 1, c, weights, x, 5), expected))
          << dtype_info(type).name << " " << isa_name(isa);
    }
  }
}

TEST(Matmul, PickedRowsAndBiasEqualWholeProducts) {
  const Case c = {DType::kQ4_1, 40, 64};
  const std::vector<uint8_t> weights = random_weights(c, 7);
  const std::vector<float> x = random_floats(6 * c.k, 8, 1.0f), bias = random_floats(c.n, 9, 1.0f);
  const std::vector<float> whole = product(best_isa(), 1, c, weights, x, 6);
  ThreadPool pool({.threads = 2});
  Arena arena;
  const PackedMatrix packed = PackedMatrix::pack(pool, arena, c.type, c.n, c.k, weights.data());
  Activations activations;
  activations.resize(6, c.k);
  for (int r = 0; r < 6; ++r) {
    ops(best_isa()).quantise(x.data() + r * c.k, c.k, activations.row(r), activations.wide_row(r));
  }
  const int32_t ids[] = {4, 0, 4};
  std::vector<float> y(static_cast<size_t>(3 * c.n));
  const MatmulJob job = {&packed, y.data(), c.n, bias.data()};
  matmul(pool, matmul_kernels(best_isa()), {.rows = 3, .quantised = &activations, .ids = ids}, {&job, 1});
  for (int i = 0; i < 3; ++i) {
    for (int64_t n = 0; n < c.n; ++n) {
      EXPECT_EQ(y[static_cast<size_t>(i * c.n + n)],
                whole[static_cast<size_t>(ids[i] * c.n + n)] + bias[static_cast<size_t>(n)]);
    }
  }
}

TEST(PackedMatrix, DequantisedRowsAreTheFilesValues) {
  ThreadPool pool({.threads = 2});
  for (DType type : all_types()) {
    const Case c = {type, 21, 512};
    const std::vector<uint8_t> weights = random_weights(c, 10);
    Arena arena;
    const PackedMatrix packed = PackedMatrix::pack(pool, arena, type, c.n, c.k, weights.data());
    std::vector<float> expected(static_cast<size_t>(c.k)), row(static_cast<size_t>(c.k));
    for (int64_t n = 0; n < c.n; ++n) {
      format_of(type).dequantise(weights.data() + n * dtype_bytes(type, c.k), c.k, expected.data());
      packed.dequantise_row(n, row.data());
      EXPECT_EQ(row, expected) << dtype_info(type).name << " row " << n;
    }
  }
}

TEST(PackedMatrix, IsNoLargerThanTheFileBySevenPercent) {
  ThreadPool pool({.threads = 1});
  for (DType type : all_types()) {
    const Case c = {type, 16, 512};
    const std::vector<uint8_t> weights = random_weights(c, 11);
    Arena arena;
    const PackedMatrix packed = PackedMatrix::pack(pool, arena, type, c.n, c.k, weights.data());
    EXPECT_LE(packed.bytes(), 1.07 * static_cast<double>(weights.size())) << dtype_info(type).name;
  }
}

}  // namespace
}  // namespace dspark
