/* The float functions: the double function, rounded once more. */
#include "real.h"

#define ONE(name) \
  float name##f(float x) { return (float)name(x); }
#define TWO(name) \
  float name##f(float x, float y) { return (float)name(x, y); }

ONE(cbrt) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos) ONE(atan)
ONE(sinh) ONE(cosh) ONE(tanh) ONE(asinh) ONE(acosh) ONE(atanh)
ONE(exp) ONE(exp2) ONE(exp10) ONE(expm1) ONE(log) ONE(log2) ONE(log10) ONE(log1p)
ONE(floor) ONE(ceil) ONE(trunc) ONE(round) ONE(roundeven) ONE(rint) ONE(nearbyint) ONE(sqrt)
TWO(atan2) TWO(pow) TWO(hypot) TWO(fmod) TWO(remainder) TWO(fmin) TWO(fmax) TWO(fdim)

float fabsf(float x) { return __builtin_fabsf(x); }
float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
float ldexpf(float x, int exponent) { return (float)ldexp(x, exponent); }
float scalbnf(float x, int exponent) { return (float)ldexp(x, exponent); }
float frexpf(float x, int *exponent) { return (float)frexp(x, exponent); }
long lroundf(float x) { return lround(x); }
long long llroundf(float x) { return llround(x); }
long lrintf(float x) { return lrint(x); }
long long llrintf(float x) { return llrint(x); }

float modff(float x, float *whole) {
  double whole_part, fraction = modf(x, &whole_part);
  *whole = (float)whole_part;
  return (float)fraction;
}

void sincosf(float x, float *sine, float *cosine) {
  double s, c;
  sincos(x, &s, &c);
  *sine = (float)s;
  *cosine = (float)c;
}

/* The product is exact in double. The sum is rounded to odd there, so that rounding it again is harmless. */
float fmaf(float x, float y, float z) {
  double product = (double)x * y;
  struct pair sum = sum_exact(product, z);
  if (isfinite(sum.high) && sum.low != 0 && !(bits_of(sum.high) & 1)) {
    int away = (sum.low > 0) == (sum.high > 0);
    sum.high = from_bits(away ? bits_of(sum.high) + 1 : bits_of(sum.high) - 1);
  }
  return (float)sum.high;
}
