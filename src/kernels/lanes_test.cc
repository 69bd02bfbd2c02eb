// Tests of lanes_avx2.h and lanes_avx512.h against lanes_portable.h, operation by operation, on values where they might
// differ; of a few results of lanes_portable.h that its comments promise; and of vector_math.inl's exp.
#include "kernels/lanes_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/test_values.h"

namespace dspark {
namespace {

using namespace testing_values;

std::span<const LaneOp> lane_ops(Isa isa) {
  const LaneTable& table = isa == Isa::kAvx512 ? kAvx512Lanes : isa == Isa::kAvx2 ? kAvx2Lanes : kPortableLanes;
  return {table.ops, static_cast<size_t>(table.count)};
}

void fill(uint8_t* operand, int kind, std::mt19937* random) {
  const uint32_t seed = static_cast<uint32_t>((*random)());
  if (kind < 3) {
    std::vector<float> floats = values(static_cast<Kind>(kind), 16, seed);
    // Around the range of int32, and halves between integers.
    if (seed % 3 == 0) {
      for (float& x : floats) x = std::ldexp(std::nearbyint(8.0f * x), static_cast<int>((*random)() % 34) - 4);
    }
    std::memcpy(operand, floats.data(), 64);
  } else {
    for (int i = 0; i < 64; ++i) operand[i] = static_cast<uint8_t>((*random)());  // any bits: signalling NaN too
  }
}

LaneInput random_input(int round, std::mt19937* random) {
  LaneInput out;
  fill(out.a, round % 4, random);
  fill(out.b, round / 4 % 4, random);
  fill(out.c, round / 16 % 4, random);
  if (round % 5 == 0) std::memcpy(out.b, out.a, 32);  // equal operands
  return out;
}

LaneOutput run(const LaneOp& op, const LaneInput& in) {
  LaneOutput out = {};
  op.run(in, &out);
  if (op.float_result) {
    float lanes[16];
    std::memcpy(lanes, out.x, 64);
    for (float& lane : lanes) lane = std::isnan(lane) ? kNan : lane;
    std::memcpy(out.x, lanes, 64);
  }
  return out;
}

TEST(Lanes, EveryOperationEqualsThePortableOne) {
  print_isas();
  for (Isa isa : isas_here()) {
    if (isa == Isa::kPortable) continue;
    ASSERT_EQ(lane_ops(isa).size(), lane_ops(Isa::kPortable).size());
    for (size_t i = 0; i < lane_ops(isa).size(); ++i) {
      const LaneOp &op = lane_ops(isa)[i], &portable = lane_ops(Isa::kPortable)[i];
      ASSERT_STREQ(op.name, portable.name);
      std::mt19937 random(static_cast<uint32_t>(i));
      for (int round = 0; round < 500; ++round) {
        const LaneInput in = random_input(round, &random);
        const LaneOutput out = run(op, in), expected = run(portable, in);
        ASSERT_EQ(std::memcmp(&out, &expected, sizeof(out)), 0) << op.name << " on " << isa_name(isa) << ", " << round;
      }
    }
  }
}

const LaneOp& named(Isa isa, const char* name) {
  for (const LaneOp& op : lane_ops(isa)) {
    if (std::strcmp(op.name, name) == 0) return op;
  }
  ADD_FAILURE() << "no operation " << name;
  return lane_ops(isa)[0];
}

// What the named operation makes of operands whose lanes are all a, b and c.
template <class Out, class In>
Out lane(const char* name, In a, In b = {}, In c = {}) {
  LaneInput in;
  for (int i = 0; i < 16; ++i) {
    std::memcpy(in.a + 4 * i, &a, 4);
    std::memcpy(in.b + 4 * i, &b, 4);
    std::memcpy(in.c + 4 * i, &c, 4);
  }
  const LaneOutput out = run(named(Isa::kPortable, name), in);
  Out result;
  std::memcpy(&result, out.x, sizeof(Out));
  return result;
}

TEST(Lanes, PortableOperationsKeepTheirPromises) {
  EXPECT_EQ((lane<float, float>("fma", 1 + 0x1p-12f, 1 - 0x1p-12f, -1.0f)), -0x1p-24f);  // rounded once
  EXPECT_EQ((lane<float, float>("max", kNan, 1.0f)), 1.0f);
  EXPECT_TRUE(std::isnan(lane<float, float>("max", 1.0f, kNan)));
  EXPECT_EQ((lane<float, float>("min", kNan, 1.0f)), 1.0f);
  EXPECT_EQ((lane<int32_t, float>("to_i32", 2.5f)), 2);
  EXPECT_EQ((lane<int32_t, float>("to_i32", -3.5f)), -4);
  EXPECT_EQ((lane<int32_t, float>("to_i32", -0x1p31f)), INT32_MIN);
  EXPECT_EQ((lane<int32_t, float>("to_i32", 0x1p31f)), INT32_MIN);
  EXPECT_EQ((lane<int32_t, float>("to_i32", kNan)), INT32_MIN);
  EXPECT_EQ((lane<int32_t, int32_t>("integer +", INT32_MAX, 1)), INT32_MIN);
  EXPECT_EQ((lane<uint64_t, uint32_t>("multiply_low", ~0u, ~0u)), 0xFFFFFFFE00000001u);  // unsigned
  EXPECT_EQ((lane<uint32_t, float>("float less", kNan, 1.0f)), 0u);
  EXPECT_EQ((lane<uint32_t, float>("float less", -1.0f, 1.0f)), 0xFFFFu);
}

TEST(Lanes, SumsAddInTheFixedTree) {
  LaneInput in = {};
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = std::ldexp(1.0f, 3 * i);  // any other order rounds differently
  std::memcpy(in.a, lanes, 64);
  float tree[16];
  std::memcpy(tree, lanes, 64);
  for (int half : {8, 4, 2, 1}) {
    for (int i = 0; i < half; ++i) tree[i] += tree[i + half];
  }
  for (Isa isa : isas_here()) {
    float sum;
    const LaneOutput out = run(named(isa, "lanes_sum"), in);
    std::memcpy(&sum, out.x, 4);
    EXPECT_EQ(sum, tree[0]) << isa_name(isa);
  }
}

// e^x of x [n], 16 at a time.
std::vector<float> exps(Isa isa, const std::vector<float>& x) {
  const LaneOp& op = named(isa, "exp");
  std::vector<float> out(x.size());
  for (size_t i = 0; i < x.size(); i += 16) {
    LaneInput in = {};
    const size_t bytes = std::min<size_t>(16, x.size() - i) * sizeof(float);
    std::memcpy(in.a, x.data() + i, bytes);
    const LaneOutput y = run(op, in);
    std::memcpy(out.data() + i, y.x, bytes);
  }
  return out;
}

TEST(Exp, IsWithinOneUlpAndTheSameEverywhere) {
  std::vector<float> x;
  std::mt19937 random(1);
  std::uniform_real_distribution<float> whole(-87.3f, 88.7f), middle(-1.0f, 1.0f);
  for (int i = 0; i < 200'000; ++i) x.insert(x.end(), {whole(random), middle(random)});
  // Where the reduction changes its multiple of ln 2, and next to the thresholds.
  for (int n = -125; n <= 127; ++n) {
    float edge = static_cast<float>((n + 0.5) * 0.693147180559945);
    for (int step = 0; step < 8; ++step, edge = std::nextafter(edge, kInf)) x.push_back(edge);
  }
  for (float edge : {-87.3f, 88.7f, std::nextafter(-87.3f, 0.0f), std::nextafter(88.7f, 0.0f), 1e-30f, -1e-30f,
                     kSubnormal, 1e-8f, -1e-8f}) {
    x.push_back(edge);
  }
  const std::vector<float> y = exps(Isa::kPortable, x);
  for (Isa isa : isas_here()) EXPECT_TRUE(same_bits(exps(isa, x), y)) << isa_name(isa);
  double worst = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::exp(double{x[i]});
    const double ulp = std::ldexp(1.0, std::max(std::ilogb(expected), -126) - 23);
    const double error = std::fabs(y[i] - expected) / ulp;
    worst = std::max(worst, error);
    ASSERT_LE(error, 1.0) << std::hexfloat << x[i];
  }
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Exp, Thresholds) {
  for (Isa isa : isas_here()) {
    EXPECT_EQ(exps(isa, {0.0f, -0.0f}), (std::vector<float>{1.0f, 1.0f})) << isa_name(isa);
    const std::vector<float> low = {std::nextafter(-87.3f, -kInf), -1000.0f, -kMax, -kInf};
    EXPECT_EQ(exps(isa, low), std::vector<float>(4, 0.0f)) << isa_name(isa);
    const std::vector<float> high = {std::nextafter(88.7f, kInf), 1000.0f, kMax, kInf};
    EXPECT_EQ(exps(isa, high), std::vector<float>(4, kInf)) << isa_name(isa);
    EXPECT_GE(exps(isa, {-87.3f})[0], kMinNormal) << isa_name(isa);
    EXPECT_LT(exps(isa, {88.7f})[0], kInf) << isa_name(isa);
    EXPECT_TRUE(std::isnan(exps(isa, {kNan})[0])) << isa_name(isa);
  }
}

// The bits that it had when it was written: a change here changes what every model answers.
TEST(Exp, KeepsItsBits) {
  const std::vector<float> x = {1.0f, -1.0f, 0.5f, -20.25f};
  const std::vector<float> y = {0x1.5bf0a8p+1f, 0x1.78b564p-2f, 0x1.a61298p+0f, 0x1.b93de2p-30f};
  for (Isa isa : isas_here()) EXPECT_EQ(exps(isa, x), y) << isa_name(isa);
}

}  // namespace
}  // namespace dspark
