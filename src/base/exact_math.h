// Elementary functions whose bits are the same on every machine: the tables of RoPE, the noise of draws and whatever
// else must not depend on the C library. Pure, any thread.
//
// Each uses only additions, multiplications, divisions and std::fma in double, all correctly rounded by IEEE 754, in a
// written order (the build forbids contraction). Errors are in units in the last place of the exact value, measured
// against 80-bit arithmetic in exact_math_test.cc. NaN gives NaN.
#pragma once

#include <cstdint>

namespace dspark {

// e^x; 0 below -745.2, infinity above 709.8. Within 1 ulp where the result is normal.
double exact_exp(double x);

// 2^x; exact where x is an integer. Within 1 ulp where the result is normal.
double exact_exp2(double x);

// Natural logarithm; -infinity at 0, NaN below. Within 1 ulp.
double exact_log(double x);

// log(1 + x), accurate around 0; -infinity at -1, NaN below. Within 1 ulp.
double exact_log1p(double x);

// x^y for x > 0 (0 at x = 0 with y > 0; NaN for x < 0). Within 1 ulp where the result is normal.
double exact_pow(double x, double y);

// Hyperbolic tangent. Within 3 ulp.
double exact_tanh(double x);

// |x| of at most kMaxAngle: the reduction by pi / 2 carries 137 bits. Beyond it, and for infinities: NaN. Within 1 ulp.
inline constexpr double kMaxAngle = 0x1p25;
double exact_sin(double x);
double exact_cos(double x);

}  // namespace dspark
