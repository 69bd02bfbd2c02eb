// The functions against glibc's 80-bit ones, which we did not write, and at the values that the engine leans on.
#include "base/exact_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

namespace dspark {
namespace {

static_assert(LDBL_MANT_DIG >= 64, "the reference needs more precision than double");

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// |actual - exact| in units in the last place of the exact value, as a double has them.
double error_in_ulp(double actual, long double exact) {
  const double nearest = static_cast<double>(exact);
  const double unit = std::nextafter(std::fabs(nearest), kInfinity) - std::fabs(nearest);
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - exact) / unit);
}

// The largest error over uniform draws from [low, high).
template <class Ours, class Reference>
double worst_error(Ours ours, Reference reference, double low, double high, int count = 200'000) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> draw(low, high);
  double worst = 0.0;
  for (int i = 0; i < count; ++i) {
    const double x = draw(random);
    worst = std::max(worst, error_in_ulp(ours(x), reference(static_cast<long double>(x))));
  }
  return worst;
}

// The same with logarithmically uniform magnitudes 2^low .. 2^high.
template <class Ours, class Reference>
double worst_error_log(Ours ours, Reference reference, double low, double high) {
  return worst_error(
      [&](double e) { return ours(std::exp2(e)); },
      [&](long double e) { return reference(static_cast<long double>(std::exp2(static_cast<double>(e)))); }, low, high);
}

TEST(ExactMath, Exp) {
  const auto reference = [](long double x) { return std::exp(x); };
  EXPECT_LT(worst_error(exact_exp, reference, -1.0, 1.0), 1.0);
  EXPECT_LT(worst_error(exact_exp, reference, -707.0, 709.7), 1.0);
  EXPECT_LT(worst_error(exact_exp, reference, -1e-9, 1e-9), 1.0);
  EXPECT_EQ(exact_exp(0.0), 1.0);
  EXPECT_EQ(exact_exp(1.0), 0x1.5bf0a8b145769p+1);
  EXPECT_EQ(exact_exp(710.0), kInfinity);
  EXPECT_EQ(exact_exp(kInfinity), kInfinity);
  EXPECT_EQ(exact_exp(-746.0), 0.0);
  EXPECT_EQ(exact_exp(-kInfinity), 0.0);
  EXPECT_EQ(exact_exp(-744.4), 0x1p-1074);  // subnormals are kept
  EXPECT_TRUE(std::isnan(exact_exp(std::nan(""))));
}

TEST(ExactMath, Exp2) {
  const auto reference = [](long double x) { return std::exp2(x); };
  EXPECT_LT(worst_error(exact_exp2, reference, -1.0, 1.0), 1.0);
  EXPECT_LT(worst_error(exact_exp2, reference, -1021.0, 1023.9), 1.0);
  for (int n = -1074; n < 1024; ++n) EXPECT_EQ(exact_exp2(n), std::ldexp(1.0, n));
  EXPECT_EQ(exact_exp2(1024.0), kInfinity);
  EXPECT_EQ(exact_exp2(-1076.0), 0.0);
  EXPECT_TRUE(std::isnan(exact_exp2(std::nan(""))));
}

TEST(ExactMath, Log) {
  const auto reference = [](long double x) { return std::log(x); };
  EXPECT_LT(worst_error(exact_log, reference, 0.5, 2.0), 1.0);
  EXPECT_LT(worst_error(exact_log, reference, 1.0 - 1e-6, 1.0 + 1e-6), 1.0);
  EXPECT_LT(worst_error_log(exact_log, reference, -1074.0, 1023.9), 1.0);
  EXPECT_EQ(exact_log(1.0), 0.0);
  EXPECT_EQ(exact_log(2.0), 0x1.62e42fefa39efp-1);
  EXPECT_EQ(exact_log(0.0), -kInfinity);
  EXPECT_EQ(exact_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exact_log(-1.0)));
  EXPECT_TRUE(std::isnan(exact_log(std::nan(""))));
}

TEST(ExactMath, Log1p) {
  const auto reference = [](long double x) { return std::log1p(x); };
  EXPECT_LT(worst_error(exact_log1p, reference, -0.999, 1.0), 1.0);
  EXPECT_LT(worst_error_log(exact_log1p, reference, -60.0, 100.0), 1.0);
  EXPECT_LT(worst_error_log([](double x) { return exact_log1p(-x); }, [&](long double x) { return reference(-x); },
                            -60.0, -0.001),
            1.0);
  EXPECT_EQ(exact_log1p(0.0), 0.0);
  EXPECT_EQ(exact_log1p(-1.0), -kInfinity);
  EXPECT_EQ(exact_log1p(kInfinity), kInfinity);
  EXPECT_EQ(exact_log1p(0x1p-1074), 0x1p-1074);
  EXPECT_TRUE(std::isnan(exact_log1p(-1.5)));
}

TEST(ExactMath, PowOfRopeBases) {
  for (const double base : {1e4, 1e5, 5e5, 1e6, 1e7}) {
    EXPECT_LT(worst_error([&](double y) { return exact_pow(base, y); },
                          [&](long double y) { return std::pow(static_cast<long double>(base), y); }, -1.0, 1.0),
              1.0);
  }
}

TEST(ExactMath, PowOfEverything) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> log2_base(-1000.0, 1000.0), log2_result(-1021.0, 1023.0);
  double worst = 0.0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = std::exp2(log2_base(random));
    const double y = log2_result(random) / std::log2(x);
    worst = std::max(worst,
                     error_in_ulp(exact_pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y))));
  }
  EXPECT_LT(worst, 1.0);
  for (int n = -40; n <= 40; ++n) EXPECT_EQ(exact_pow(2.0, n), std::ldexp(1.0, n));
  for (int n = 0; n <= 15; ++n) EXPECT_EQ(exact_pow(10.0, n), std::stod("1e" + std::to_string(n)));
  EXPECT_EQ(exact_pow(3.0, 0.0), 1.0);
  EXPECT_EQ(exact_pow(1.0, 1e300), 1.0);
  EXPECT_EQ(exact_pow(0.0, 2.0), 0.0);
  EXPECT_EQ(exact_pow(0.0, -2.0), kInfinity);
  EXPECT_EQ(exact_pow(2.0, 1e300), kInfinity);
  EXPECT_EQ(exact_pow(2.0, -1e300), 0.0);
  EXPECT_TRUE(std::isnan(exact_pow(-2.0, 2.0)));
}

TEST(ExactMath, Tanh) {
  const auto reference = [](long double x) { return std::tanh(x); };
  EXPECT_LT(worst_error(exact_tanh, reference, -1.0, 1.0), 3.0);
  EXPECT_LT(worst_error(exact_tanh, reference, -30.0, 30.0), 3.0);
  EXPECT_LT(worst_error_log(exact_tanh, reference, -60.0, 5.0), 3.0);
  EXPECT_EQ(exact_tanh(0.0), 0.0);
  EXPECT_TRUE(std::signbit(exact_tanh(-0.0)));
  EXPECT_EQ(exact_tanh(kInfinity), 1.0);
  EXPECT_EQ(exact_tanh(-kInfinity), -1.0);
  EXPECT_TRUE(std::isnan(exact_tanh(std::nan(""))));
}

TEST(ExactMath, SinAndCos) {
  const auto sine = [](long double x) { return std::sin(x); };
  const auto cosine = [](long double x) { return std::cos(x); };
  for (const double limit : {0.8, 10.0, 1e4, 1e7, kMaxAngle}) {
    EXPECT_LT(worst_error(exact_sin, sine, -limit, limit), 1.0) << limit;
    EXPECT_LT(worst_error(exact_cos, cosine, -limit, limit), 1.0) << limit;
  }
  EXPECT_LT(worst_error_log(exact_sin, sine, -60.0, 25.0), 1.0);
  EXPECT_EQ(exact_sin(0.0), 0.0);
  EXPECT_EQ(exact_cos(0.0), 1.0);
  EXPECT_TRUE(std::isnan(exact_sin(2 * kMaxAngle)));
  EXPECT_TRUE(std::isnan(exact_cos(kInfinity)));
}

// Where the reduction cancels most: the doubles beside multiples of pi / 2.
TEST(ExactMath, SinAndCosBesideMultiplesOfHalfPi) {
  double worst = 0.0;
  for (int64_t n = 1; n < 20'000'000; n = n * 9 / 8 + 1) {
    const double x = static_cast<double>(static_cast<long double>(n) * 1.57079632679489661923132L);
    for (const double y : {x, std::nextafter(x, 0.0), std::nextafter(x, kInfinity)}) {
      worst = std::max(worst, error_in_ulp(exact_sin(y), std::sin(static_cast<long double>(y))));
      worst = std::max(worst, error_in_ulp(exact_cos(y), std::cos(static_cast<long double>(y))));
    }
  }
  EXPECT_LT(worst, 1.0);
}

// The bits themselves, so that a change of any operation or of the compiler's choices shows. 1000 positions of RoPE.
TEST(ExactMath, BitsStayAsTheyAre) {
  uint64_t hash = 14695981039346656037u;
  const auto add = [&](double value) { hash = (hash ^ std::bit_cast<uint64_t>(value)) * 1099511628211u; };
  for (int i = 0; i < 1000; ++i) {
    const double frequency = exact_pow(10000.0, -i / 1000.0);
    const double angle = 7919.0 * i * frequency;
    add(exact_sin(angle)), add(exact_cos(angle)), add(exact_exp(-frequency)), add(exact_exp2(frequency));
    add(exact_log(angle + 1.0)), add(exact_log1p(-0.5 * frequency)), add(exact_tanh(frequency));
  }
  EXPECT_EQ(hash, 7408188684518003764u);
}

}  // namespace
}  // namespace dspark
