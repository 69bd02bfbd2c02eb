// Tests of ops.h but attention (attention_test.cc) and the vocabulary (vocab_test.cc): every instruction set against
// the portable one, bit for bit, and the values against plain double arithmetic.
#include "kernels/ops.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "kernels/test_values.h"

namespace dspark {
namespace {

using namespace testing_values;

constexpr int kSizes[] = {1, 15, 16, 17, 31, 33, 576, 1000};
constexpr double kEps = 0x1p-24;  // half an ulp of 1: the largest relative error of one rounding

// Runs `fn(ops)` for every instruction set: all results must have the bits of the portable one, which is returned.
std::vector<float> on_all(const std::string& what, const std::function<std::vector<float>(const Ops&)>& fn) {
  const std::vector<float> expected = fn(kPortableOps);
  for (Isa isa : isas_here()) EXPECT_TRUE(same_bits(fn(ops(isa)), expected)) << what << " on " << isa_name(isa);
  return expected;
}

std::string label(Kind kind, int64_t n) {
  return "kind " + std::to_string(static_cast<int>(kind)) + ", n = " + std::to_string(n);
}

// For every kind and size: fn(kind, n, seed).
template <class Fn>
void for_inputs(Fn fn) {
  for (Kind kind : kKinds) {
    for (int n : kSizes) fn(kind, n, static_cast<uint32_t>(n) * 10 + static_cast<uint32_t>(kind));
  }
}

TEST(Ops, TablesAreOfTheirInstructionSet) {
  print_isas();
  for (Isa isa : isas_here()) EXPECT_EQ(ops(isa).isa, isa);
}

TEST(Ops, RmsNorm) {
  for_inputs([](Kind kind, int n, uint32_t seed) {
    const std::vector<float> x = values(kind, n, seed), weight = values(kind, n, seed + 1);
    const std::vector<float> out = on_all("rms_norm, " + label(kind, n), [&](const Ops& f) {
      std::vector<float> y(static_cast<size_t>(n)), in_place = x;
      f.rms_norm(x.data(), weight.data(), n, 1e-5f, y.data());
      f.rms_norm(in_place.data(), weight.data(), n, 1e-5f, in_place.data());
      EXPECT_TRUE(same_bits(y, in_place));
      return y;
    });
    if (kind != Kind::kNormal) return;
    double squares = 0.0;
    for (float value : x) squares += double{value} * value;
    const double factor = 1.0 / std::sqrt(squares / n + double{1e-5f});
    // Each lane adds n / 16 squares, the tree 4 times; mean, eps, root, inverse and two products round once each, and
    // the root halves what came before it.
    const double tolerance = ((n / 16 + 7) / 2.0 + 4) * kEps;
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = x[i] * factor * weight[i];
      EXPECT_NEAR(out[i], expected, tolerance * std::fabs(expected)) << "n = " << n;
    }
  });
}

TEST(Ops, AddScaleAndAddScaledRoundOncePerElement) {
  for_inputs([](Kind kind, int n, uint32_t seed) {
    const std::vector<float> x = values(kind, n, seed), y = values(kind, n, seed + 1);
    for (float factor : {0.0f, -1.7f, 1e-38f, 3e38f, kNan, kInf}) {
      std::vector<float> sum(x), product(x), fused(x);
      for (size_t i = 0; i < x.size(); ++i) {
        sum[i] = x[i] + y[i];
        product[i] = x[i] * factor;
        fused[i] = std::fma(factor, y[i], x[i]);
      }
      for (Isa isa : isas_here()) {
        std::vector<float> out = x;
        ops(isa).add(out.data(), y.data(), n);
        EXPECT_TRUE(same_bits(out, sum)) << isa_name(isa) << " " << label(kind, n);
        out = x;
        ops(isa).scale(out.data(), factor, n);
        EXPECT_TRUE(same_bits(out, product)) << isa_name(isa) << " " << label(kind, n);
        out = x;
        ops(isa).add_scaled(out.data(), y.data(), factor, n);
        EXPECT_TRUE(same_bits(out, fused)) << isa_name(isa) << " " << label(kind, n);
      }
    }
  });
}

TEST(Ops, GatedIsTheSameEverywhere) {
  for_inputs([](Kind kind, int n, uint32_t seed) {
    const std::vector<float> g = values(kind, n, seed), up = values(kind, n, seed + 1);
    for (Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
      on_all("gated, " + label(kind, n), [&](const Ops& f) {
        std::vector<float> y(static_cast<size_t>(n)), in_place = g;
        f.gated(gate, g.data(), up.data(), n, y.data());
        f.gated(gate, in_place.data(), up.data(), n, in_place.data());
        EXPECT_TRUE(same_bits(y, in_place));
        return y;
      });
    }
  });
}

TEST(Ops, GatedEqualsItsFormula) {
  std::vector<float> g;
  for (int i = -2000; i <= 2000; ++i) g.push_back(static_cast<float>(i) * 0.05f);
  for (float x : {1e4f, -1e4f, 1e20f, -1e20f, kMax, -kMax, kSubnormal, 0.0f}) g.push_back(x);
  const std::vector<float> up = normals(static_cast<int64_t>(g.size()), 5);
  for (Gate gate : {Gate::kSilu, Gate::kGeluTanh}) {
    std::vector<float> y(g.size());
    ops(best_isa()).gated(gate, g.data(), up.data(), static_cast<int>(g.size()), y.data());
    for (size_t i = 0; i < g.size(); ++i) {
      const double x = g[i];
      // x / (1 + e^-z): z is x itself, or rounded four times, which e^-z turns into a relative error of 4 |z| roundings
      // where it dominates. Below -87 the quotient may be cut to zero.
      const double z = gate == Gate::kSilu ? x : 2.0 * std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x);
      const double expected = x / (1.0 + std::exp(-z)) * up[i];
      const double inner = gate == Gate::kSilu || z > 0.0 ? 0.0 : 4.0 * std::min(-z, 100.0);
      EXPECT_NEAR(y[i], expected, (8.0 + inner) * kEps * std::fabs(expected) + 2e-36 * std::fabs(up[i]))
          << "gate " << static_cast<int>(gate) << " of " << g[i] << " times " << up[i];
    }
  }
}

TEST(Ops, RopeTurnsPairsHalfAHeadApart) {
  for (Kind kind : kKinds) {
    for (int rotary : {2, 16, 20, 32, 40, 48, 64, 80, 96, 128, 160, 256}) {
      const int half = rotary / 2, head_dim = rotary + 16;  // what is behind the rotary part stays
      const uint32_t seed = static_cast<uint32_t>(rotary);
      const std::vector<float> x = values(kind, head_dim, seed);
      std::vector<float> cos(static_cast<size_t>(half)), sin(cos);
      for (size_t i = 0; i < cos.size(); ++i) {
        cos[i] = static_cast<float>(std::cos(0.37 * static_cast<double>(i) + 0.1));
        sin[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i) + 0.1));
      }
      const std::vector<float> y = on_all("rope, " + label(kind, rotary), [&](const Ops& f) {
        std::vector<float> out = x;
        f.rope(out.data(), cos.data(), sin.data(), rotary);
        return out;
      });
      EXPECT_TRUE(same_bits(std::span(y).subspan(static_cast<size_t>(rotary)),
                            std::span(x).subspan(static_cast<size_t>(rotary))));
      if (kind != Kind::kNormal) continue;
      for (size_t i = 0; i < cos.size(); ++i) {
        const double a = x[i], b = x[i + cos.size()], c = cos[i], s = sin[i];
        EXPECT_NEAR(y[i], a * c - b * s, 2 * kEps * (std::fabs(a * c) + std::fabs(b * s)));
        EXPECT_NEAR(y[i + cos.size()], b * c + a * s, 2 * kEps * (std::fabs(b * c) + std::fabs(a * s)));
      }
    }
  }
}

// `quantise` in plain scalar code.
ActivationBlock scalar_block(const float* x) {
  ActivationBlock out = {};
  float amax = 0.0f;
  bool finite = true;
  for (int i = 0; i < 32; ++i) {
    finite = finite && std::isfinite(x[i]);
    amax = std::max(amax, std::fabs(x[i]));
  }
  if (!finite) {
    out.scale = out.scaled_sum = kNan;
    return out;
  }
  if (amax < 0x1p-120f) return out;
  out.scale = amax / 127.0f;
  for (int i = 0; i < 32; ++i) {
    const int q = static_cast<int>(std::nearbyint(x[i] * (127.0f / amax)));
    out.q[i] = static_cast<int8_t>(q);
    out.sum += q;
    if (i < 16) out.sum_low += q;
  }
  out.scaled_sum = out.scale * static_cast<float>(out.sum);
  return out;
}

void expect_quantised(const std::vector<float>& x, const std::string& what) {
  const int64_t k = static_cast<int64_t>(x.size());
  for (Isa isa : isas_here()) {
    std::vector<ActivationBlock> blocks(static_cast<size_t>(k / 32)), alone(blocks);
    std::vector<int16_t> wide(x.size());
    ops(isa).quantise(x.data(), k, blocks.data(), wide.data());
    ops(isa).quantise(x.data(), k, alone.data(), nullptr);
    for (size_t b = 0; b < blocks.size(); ++b) {
      const ActivationBlock expected = scalar_block(x.data() + 32 * b);
      for (const ActivationBlock& block : {blocks[b], alone[b]}) {
        EXPECT_THAT(block.q, testing::ElementsAreArray(expected.q)) << what << " on " << isa_name(isa);
        EXPECT_TRUE(same_bits(block.scale, expected.scale)) << what << " on " << isa_name(isa);
        EXPECT_TRUE(same_bits(block.scaled_sum, expected.scaled_sum)) << what << " on " << isa_name(isa);
        EXPECT_EQ(block.sum, expected.sum) << what << " on " << isa_name(isa);
        EXPECT_EQ(block.sum_low, expected.sum_low) << what << " on " << isa_name(isa);
      }
      for (size_t i = 0; i < 32; ++i) {
        constexpr size_t kOrder[] = {0, 2, 1, 3};
        EXPECT_EQ(wide[32 * b + i], expected.q[i / 4 * 4 + kOrder[i % 4]]) << what << " on " << isa_name(isa);
      }
    }
  }
}

TEST(Ops, QuantiseEqualsTheScalarDefinition) {
  for (Kind kind : kKinds) {
    for (int64_t k : {32, 64, 576, 1024}) expect_quantised(values(kind, k, static_cast<uint32_t>(k)), label(kind, k));
  }
  // Wide in range from block to block, every block finite.
  std::vector<float> scaled = normals(32 * 250, 3);
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] = std::ldexp(scaled[i], static_cast<int>(i / 32) - 124);
  expect_quantised(scaled, "scaled");
}

TEST(Ops, QuantiseOfSpecialBlocks) {
  const std::vector<float> clean = normals(32, 4);
  for (float special : {kNan, -kNan, kInf, -kInf, kMax, -kMax, kSubnormal, kMinNormal, 0x1p-120f, 0x1.fffffep-121f}) {
    for (size_t position : {0, 15, 16, 31}) {
      std::vector<float> x(96);  // its neighbours must not notice
      std::copy(clean.begin(), clean.end(), x.begin());
      std::copy(clean.begin(), clean.end(), x.begin() + 64);
      x[32 + position] = special;
      expect_quantised(x, "one " + std::to_string(special));
    }
    expect_quantised(std::vector<float>(32, special), "all " + std::to_string(special));
  }
  expect_quantised(std::vector<float>(64, 0.0f), "zeros");
  expect_quantised(std::vector<float>(64, -0.0f), "negative zeros");
}

TEST(Ops, QuantiseRoundsTiesToEven) {
  std::vector<float> x(32);
  x[0] = 127.0f;  // scale 1
  for (size_t i = 1; i < 32; ++i) x[i] = static_cast<float>(i) - 16.5f;
  expect_quantised(x, "ties");
  ActivationBlock block;
  ops(best_isa()).quantise(x.data(), 32, &block, nullptr);
  EXPECT_EQ(block.scale, 1.0f);
  EXPECT_EQ(block.q[15], -2);  // -1.5
  EXPECT_EQ(block.q[16], 0);   // -0.5
  EXPECT_EQ(block.q[17], 0);   // 0.5
  EXPECT_EQ(block.q[18], 2);   // 1.5
  EXPECT_EQ(block.q[19], 2);   // 2.5
}

}  // namespace
}  // namespace dspark
