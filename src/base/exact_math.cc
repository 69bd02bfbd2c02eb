// Argument reduction in two or more parts, then a Taylor polynomial on a small interval. Owns no state.
#include "base/exact_math.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace dspark {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
// ln 2: 42 bits, so that products with exponents are exact, and the rest.
constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 0x1.ef35793c76730p-45;

// An unevaluated sum: low is at most half a unit in the last place of high.
struct Pair {
  double high;
  double low;
};

// Exact if |a| >= |b| or a is 0.
Pair fast_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}
// Exact (Knuth).
Pair exact_sum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
// Exact where the product's last bits do not underflow.
Pair exact_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}
// Relative error about 2^-104.
Pair product(Pair a, Pair b) {
  const Pair head = exact_product(a.high, b.high);
  return fast_sum(head.high, head.low + (a.high * b.low + a.low * b.high));
}

// To the nearest integer, ties to even; |x| below 2^51.
double round_even(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

// 2^n for n in [-1022, 1023].
double power_of_two(int n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

// x * 2^n, rounded once, for |n| <= 2044 and x in [0.5, 4).
double scale_by(double x, int n) {
  const int half = n / 2;
  return x * power_of_two(half) * power_of_two(n - half);
}

// 1 / k! for k = 0, 1, ...
constexpr auto kInverseFactorial = [] {
  std::array<double, 20> out{};
  double factorial = 1.0;  // exact up to 18!
  for (int k = 0; k < 20; ++k) {
    factorial *= k == 0 ? 1.0 : static_cast<double>(k);
    out[static_cast<size_t>(k)] = 1.0 / factorial;
  }
  return out;
}();

// x^first / first! + x^(first + step) / (first + step)! + ... up to x^last / last!, divided by x^first; `sign` is that
// of x^step. Horner's scheme in `power` = sign * x^step.
template <int kFirst, int kLast, int kStep>
double taylor(double power) {
  double sum = kInverseFactorial[kLast];
  for (int k = kLast - kStep; k >= kFirst; k -= kStep) sum = sum * power + kInverseFactorial[static_cast<size_t>(k)];
  return sum;
}

// e^(r + low) - 1 - r for |r| <= 0.35 and a tiny `low`.
double exp_tail(double r, double low) { return r * r * taylor<2, 14, 1>(r) + low; }

// 2^n e^(r + low).
double scaled_exp(Pair r, double n) {
  const Pair head = fast_sum(1.0, r.high);
  return scale_by(head.high + (head.low + exp_tail(r.high, r.low)), static_cast<int>(n));
}

// e^(x + low), x in [-746, 710].
double exp_of_sum(double x, double low) {
  const double n = round_even(x * 0x1.71547652b82fep+0);
  return scaled_exp(exact_sum(x - n * kLn2High, low - n * kLn2Low), n);
}

// x = 2^exponent * mantissa, mantissa in [sqrt(1/2), sqrt(2)); x > 0 and finite.
struct Split {
  double mantissa;
  int exponent;
};
Split split(double x) {
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  uint64_t bits = std::bit_cast<uint64_t>(x);
  constexpr uint64_t kRootHalf = 0x3fe6a09e667f3bcd;
  // Counting from the bits of sqrt(1/2) makes the exponent step at sqrt(2) * 2^n.
  const int64_t steps = (static_cast<int64_t>(bits) - static_cast<int64_t>(kRootHalf)) >> 52;
  bits -= static_cast<uint64_t>(steps) << 52;
  return {std::bit_cast<double>(bits), exponent + static_cast<int>(steps)};
}

// 2 (s^2/3 + s^4/5 + ...) from the `kFirst`-th power on, for s2 = s^2 <= 0.0295.
template <int kFirst>
double atanh_series(double s2) {
  double sum = 2.0 / 23.0;
  for (int k = 21; k > kFirst; k -= 2) sum = sum * s2 + 2.0 / k;
  return sum;
}

// log(m * 2^exponent * (1 + low)) for a tiny `low`. With f = m - 1 and s = f / (2 + f), log(1 + f) = 2 atanh(s) =
// f - f^2/2 + s (f^2/2 + R), R = 2 (s^2/3 + s^4/5 + ...).
double log_of_split(Split x, double low) {
  const double f = x.mantissa - 1.0;
  const double s = f / (2.0 + f);
  const double s2 = s * s;
  const double half_square = 0.5 * f * f;
  const double r = s2 * atanh_series<1>(s2);
  const double n = x.exponent;
  return n * kLn2High + (f - (half_square - (s * (half_square + r) + (n * kLn2Low + low))));
}

// log(x) to about 2^-65 relative: the first two terms of 2 atanh(s) in pairs, the rest (below 2^-12 of it) in double.
Pair log_pair(double x) {
  const Split parts = split(x);
  const double f = parts.mantissa - 1.0;
  const Pair d = exact_sum(2.0, f);
  const double s_high = f / d.high;
  const double s_low = (std::fma(-s_high, d.high, f) - s_high * d.low) / d.high;
  const Pair s = fast_sum(s_high, s_low);
  const Pair s2 = product(s, s);
  const Pair cubic = product(product(s2, s), {0x1.5555555555555p-1, 0x1.5555555555555p-55});  // 2/3
  const double rest = s2.high * s2.high * s.high * atanh_series<3>(s2.high);
  const double n = parts.exponent;
  const Pair head = exact_sum(n * kLn2High, 2.0 * s.high);
  const Pair tail = exact_sum(n * kLn2Low, cubic.high);
  const Pair sum = exact_sum(head.high, tail.high);
  return fast_sum(sum.high, sum.low + (head.low + tail.low + 2.0 * s.low + cubic.low + rest));
}

// x = n pi / 2 + r, r in about [-pi/4, pi/4]; quadrant = n mod 4. pi / 2 = three parts of 28 bits, whose products with
// n are exact, and one of 53.
struct Reduced {
  Pair r;
  int quadrant;
};
Reduced reduce_angle(double x) {
  const double n = round_even(x * 0x1.45f306dc9c883p-1);
  const double first = x - n * 0x1.921fb54p+0;  // exact
  const Pair second = exact_sum(first, -n * 0x1.10b461p-30);
  const Pair third = exact_sum(second.high, -n * 0x1.a62633p-58);
  const double low = third.low + (second.low - n * 0x1.45c06e0e68948p-86);
  return {fast_sum(third.high, low), static_cast<int>(static_cast<int64_t>(n) & 3)};
}

double sin_near_zero(Pair r) {
  const double r2 = r.high * r.high;
  const double tail = r2 * r.high * -taylor<3, 19, 2>(-r2);
  return r.high + (tail + r.low * (1.0 - 0.5 * r2));
}
double cos_near_zero(Pair r) {
  const double r2 = r.high * r.high;
  const Pair head = fast_sum(1.0, -0.5 * r2);
  return head.high + (head.low + (r2 * r2 * taylor<4, 18, 2>(-r2) - r.high * r.low));
}

}  // namespace

double exact_exp(double x) {
  if (x != x) return x;
  if (x > 709.8) return kInfinity;
  if (x < -745.2) return 0.0;
  return exp_of_sum(x, 0.0);
}

double exact_exp2(double x) {
  if (x != x) return x;
  if (x >= 1024.0) return kInfinity;
  if (x < -1075.0) return 0.0;
  const double n = round_even(x);
  const Pair r = product({x - n, 0.0}, {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});  // ln 2
  return scaled_exp(r, n);
}

double exact_log(double x) {
  if (!(x > 0.0)) return x == 0.0 ? -kInfinity : kNan;
  if (x == kInfinity) return x;
  return log_of_split(split(x), 0.0);
}

double exact_log1p(double x) {
  if (!(x > -1.0)) return x == -1.0 ? -kInfinity : kNan;
  if (x == kInfinity || (x > -0x1p-54 && x < 0x1p-54)) return x;
  const Pair sum = exact_sum(1.0, x);
  return log_of_split(split(sum.high), sum.low / sum.high);
}

double exact_pow(double x, double y) {
  if (y == 0.0 || x == 1.0) return 1.0;
  if (x != x || y != y || x < 0.0) return kNan;
  if (x == 0.0) return y > 0.0 ? 0.0 : kInfinity;
  if (x == kInfinity) return y > 0.0 ? kInfinity : 0.0;
  const Pair log = log_pair(x);
  const double rough = y * log.high;
  if (rough > 709.8) return kInfinity;
  if (rough < -745.2) return 0.0;
  const Pair exponent = product({y, 0.0}, log);
  return exp_of_sum(exponent.high, exponent.low);
}

double exact_tanh(double x) {
  if (x != x) return x;
  const double y = 2.0 * std::fabs(x);
  double out = 1.0;
  if (y < 0x1p-27) {
    out = std::fabs(x);
  } else if (y < 44.0) {
    // e^y - 1 = 2^n (e^r - 1) + (2^n - 1)
    const double n = round_even(y * 0x1.71547652b82fep+0);
    const Pair r = exact_sum(y - n * kLn2High, -n * kLn2Low);
    const double power = power_of_two(static_cast<int>(n));
    const double e = power * (r.high + exp_tail(r.high, r.low)) + (power - 1.0);
    out = e / (e + 2.0);
  }
  return std::copysign(out, x);
}

double exact_sin(double x) {
  if (!(std::fabs(x) <= kMaxAngle)) return kNan;
  if (std::fabs(x) < 0x1p-27) return x;
  const Reduced reduced = reduce_angle(x);
  const double out = reduced.quadrant % 2 == 0 ? sin_near_zero(reduced.r) : cos_near_zero(reduced.r);
  return reduced.quadrant >= 2 ? -out : out;
}

double exact_cos(double x) {
  if (!(std::fabs(x) <= kMaxAngle)) return kNan;
  const Reduced reduced = reduce_angle(x);
  const double out = reduced.quadrant % 2 == 0 ? cos_near_zero(reduced.r) : sin_near_zero(reduced.r);
  return reduced.quadrant == 1 || reduced.quadrant == 2 ? -out : out;
}

}  // namespace dspark
