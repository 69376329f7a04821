/* The functions whose results are exact or correctly rounded: integer parts, scaling, remainders, fma. */
#include <stdint.h>

#include "real.h"

static const double two52 = 4503599627370496.0;

double fabs(double x) { return __builtin_fabs(x); }
double copysign(double x, double y) { return __builtin_copysign(x, y); }
double sqrt(double x) { return __builtin_sqrt(x); } /* an instruction on every processor we know */

/* Adding and taking away 2^52 rounds to a whole number in the current (nearest-even) mode. */
double rint(double x) {
  double magnitude = fabs(x);
  if (!(magnitude < two52)) return x;
  return copysign((magnitude + two52) - two52, x);
}

double nearbyint(double x) { return rint(x); }
double roundeven(double x) { return rint(x); }

double trunc(double x) {
  if (!(fabs(x) < two52)) return x;
  return copysign((double)(int64_t)x, x);
}

double floor(double x) {
  double whole = trunc(x);
  return whole > x ? whole - 1 : whole;
}

double ceil(double x) {
  double whole = trunc(x);
  return whole < x ? copysign(whole + 1, x) : whole;
}

double round(double x) {
  double whole = trunc(x);
  return fabs(x - whole) >= 0.5 ? whole + copysign(1, x) : whole;
}

long lrint(double x) { return (long)rint(x); }
long long llrint(double x) { return (long long)rint(x); }
long lround(double x) { return (long)round(x); }
long long llround(double x) { return (long long)round(x); }

double modf(double x, double *whole) {
  *whole = trunc(x);
  return copysign(isinf(x) ? 0 : x - *whole, x);
}

double frexp(double x, int *exponent) {
  *exponent = 0;
  if (x == 0 || !isfinite(x)) return x;
  int shift = 0;
  if (fabs(x) < 0x1p-1022) {
    x *= 0x1p54;
    shift = -54;
  }
  *exponent = (int)(bits_of(x) >> 52 & 0x7ff) - 1022 + shift;
  return from_bits((bits_of(x) & 0x800fffffffffffff) | 0x3fe0000000000000);
}

/* Far steps down keep 53 spare bits, so that a subnormal result is rounded once. */
double ldexp(double x, int exponent) {
  for (int i = 0; i < 2 && exponent > 1023; i++, exponent -= 1023) x *= 0x1p1023;
  for (int i = 0; i < 2 && exponent < -1022; i++, exponent += 969) x *= 0x1p-969;
  if (exponent > 1023) exponent = 1023;
  if (exponent < -1022) exponent = -1022;
  return x * from_bits((uint64_t)(exponent + 1023) << 52);
}

double scalbn(double x, int exponent) { return ldexp(x, exponent); }

double fmin(double x, double y) {
  if (isnan(x)) return y;
  if (isnan(y)) return x;
  if (x == y) return signbit(x) ? x : y;
  return x < y ? x : y;
}

double fmax(double x, double y) {
  if (isnan(x)) return y;
  if (isnan(y)) return x;
  if (x == y) return signbit(x) ? y : x;
  return x > y ? x : y;
}

double fdim(double x, double y) {
  if (isnan(x) || isnan(y)) return NAN;
  return x > y ? x - y : 0;
}

/* |x| = mantissa * 2^exponent for a finite x. */
static uint64_t take_apart(double x, int *exponent) {
  uint64_t bits = bits_of(x), mantissa = bits & 0xfffffffffffff;
  int biased = (int)(bits >> 52 & 0x7ff);
  *exponent = (biased == 0 ? 1 : biased) - 1075;
  return biased == 0 ? mantissa : mantissa | 1ull << 52;
}

/* |x| mod |y|; the last bit of the whole quotient goes to *odd. */
static double magnitude_mod(double x, double y, int *odd) {
  int ex, ey;
  uint64_t mx = take_apart(x, &ex), my = take_apart(y, &ey);
  *odd = 0;
  if (ex < ey) return fabs(x);
  for (int shift = ex - ey; shift > 0;) {
    int step = shift < 11 ? shift : 11;
    mx = (mx % my) << step;
    shift -= step;
  }
  *odd = (int)(mx / my & 1);
  return ldexp((double)(mx % my), ey);
}

double fmod(double x, double y) {
  if (isnan(x) || isnan(y) || isinf(x) || y == 0) return NAN;
  if (isinf(y)) return x;
  int odd;
  return copysign(magnitude_mod(x, y, &odd), x);
}

double remainder(double x, double y) {
  if (isnan(x) || isnan(y) || isinf(x) || y == 0) return NAN;
  if (isinf(y)) return x;
  int odd;
  double size = fabs(y), rest = magnitude_mod(x, y, &odd), other = size - rest;
  if (rest > other || (rest == other && odd)) rest = -other;
  return signbit(x) ? -rest : rest;
}

typedef unsigned __int128 uint128;

static int leading_zeros(uint128 x) {
  uint64_t high = (uint64_t)(x >> 64);
  return high != 0 ? __builtin_clzll(high) : 64 + __builtin_clzll((uint64_t)x);
}

/* Shifts right; bits that fall out leave a one in the last place. */
static uint128 shift_sticky(uint128 x, int count) {
  if (count <= 0) return x;
  if (count >= 128) return x != 0;
  return x >> count | ((x & (((uint128)1 << count) - 1)) != 0);
}

static double round_product_sum(uint128 magnitude, int exponent, int negative) {
  int drop = 128 - leading_zeros(magnitude) - 53;
  if (exponent + drop < -1074) drop = -1074 - exponent;
  if (drop > 0) {
    int beyond = drop > 2 ? drop - 2 : 0;
    uint64_t kept = (uint64_t)(shift_sticky(magnitude, beyond) << (2 - (drop - beyond)));
    uint64_t tail = kept & 3;
    kept >>= 2;
    if (tail == 3 || (tail == 2 && (kept & 1))) kept++;
    magnitude = kept;
    exponent += drop;
  }
  double result = ldexp((double)(uint64_t)magnitude, exponent);
  return negative ? -result : result;
}

double fma(double x, double y, double z) {
  if (x == 0 || y == 0 || !isfinite(x) || !isfinite(y) || !isfinite(z)) {
    return isfinite(x) && isfinite(y) && isinf(z) ? z : x * y + z;
  }
  if (z == 0) z = copysign(0, z);
  int ex, ey, ez;
  uint128 product = (uint128)take_apart(x, &ex) * take_apart(y, &ey), addend = take_apart(z, &ez);
  int negative = signbit(x) != signbit(y), addend_negative = signbit(z) != 0, exponent = ex + ey;
  if (addend == 0) return round_product_sum(product, exponent, negative);
  /* Both up to bit 124, then the smaller one down to the exponent of the other. */
  int up = leading_zeros(product) - 3, addend_up = leading_zeros(addend) - 3;
  product <<= up, exponent -= up;
  addend <<= addend_up, ez -= addend_up;
  if (exponent >= ez) {
    addend = shift_sticky(addend, exponent - ez);
  } else {
    product = shift_sticky(product, ez - exponent);
    exponent = ez;
  }
  if (negative == addend_negative) return round_product_sum(product + addend, exponent, negative);
  if (product == addend) return 0;
  if (product > addend) return round_product_sum(product - addend, exponent, negative);
  return round_product_sum(addend - product, exponent, addend_negative);
}
