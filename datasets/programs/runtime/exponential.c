/* Exponentials, logarithms, powers, roots and hyperbolic functions.
 *
 * Everything runs through two double-double routines, exponential() and logarithm(), whose relative error
 * is below 2^-60; results are within 0.51 units in the last place (log1p of 2^-52: 0.7,
 * subnormal results: 1). */
#include "real.h"

static const struct pair log_of_2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
static const struct pair log_of_10 = {0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53};
static const struct pair one_over_log_2 = {0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56};
static const struct pair one_over_log_10 = {0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57};
static const struct pair one = {1, 0};

/* exp(r) - 1 for |r| <= 0.0055. */
static struct pair small_exponential(struct pair r) {
  double x = r.high;
  double beyond = x * x * x * (1.0 / 6 + x * (1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x / 5040))));
  struct pair square = product_exact(x, x);
  struct pair sum = sum_ordered(x, 0.5 * square.high);
  return sum_ordered(sum.high, sum.low + (beyond + (r.low + x * r.low + 0.5 * square.low)));
}

/* exp(x) = result * 2^*exponent, for |x| < 2000; the result is between 0.99 and 2.01. */
static struct pair exponential(struct pair x, int *exponent) {
  double count = rint(x.high * (64 / 0.693147180559945309417));
  struct pair r = sum_exact(x.high - count * 0x1.62e42fefa0000p-7, -count * 0x1.cf79abc9e0000p-46);
  r = sum_ordered(r.high, r.low + (x.low - count * 0x1.d9cc01f97b57ap-85));
  int steps = (int)count;
  *exponent = steps >> 6;
  struct pair whole = aiocg_exp_table[steps & 63];
  return pair_add(whole, pair_multiply(whole, small_exponential(r)));
}

/* exp(x) rounded, for any pair that is not NaN. */
static double exponential_of(struct pair x) {
  if (x.high > 710) return HUGE_VAL;
  if (x.high < -746) return 0;
  int exponent;
  struct pair result = exponential(x, &exponent);
  return ldexp(result.high + result.low, exponent);
}

/* exp(x) - 1 as a pair, for |x| <= 700. */
static struct pair exponential_minus_1(struct pair x) {
  if (fabs(x.high) < 0.0054) return small_exponential(x);
  int exponent;
  struct pair result = exponential(x, &exponent);
  return pair_add(pair_scale(result, ldexp(1, exponent)), (struct pair){-1, 0});
}

double exp(double x) { return isnan(x) ? x : exponential_of((struct pair){x, 0}); }

static double power_of(struct pair log_of_base, double x) {
  if (isnan(x)) return x;
  if (fabs(x) > 2000) return x > 0 ? HUGE_VAL : 0;
  return exponential_of(pair_multiply(log_of_base, (struct pair){x, 0}));
}

double exp2(double x) { return power_of(log_of_2, x); }
double exp10(double x) { return power_of(log_of_10, x); }

double expm1(double x) {
  if (isnan(x) || fabs(x) < 0x1p-54) return x;
  if (x > 700) return exp(x);
  if (x < -50) return -1;
  return exponential_minus_1((struct pair){x, 0}).high;
}

/* log(m) where x = m * 2^*exponent and 0.7 < m < 1.42, for positive finite x. */
static struct pair logarithm_of_mantissa(double x, int *exponent) {
  double m = 2 * frexp(x, exponent);
  --*exponent;
  int index = (int)(bits_of(m) >> 45 & 127);
  double centre = 1 + (index + 0.5) / 128;
  struct pair whole = aiocg_log_table[index];
  if (index >= 53) {
    ++*exponent;
    m /= 2;
    centre /= 2;
    whole = pair_add(whole, pair_negate(log_of_2));
  }
  if (fabs(m - 1) < 1.0 / 128) {
    centre = 1;
    whole = (struct pair){0, 0};
  }
  struct pair r = pair_divide((struct pair){m - centre, 0}, (struct pair){centre, 0});
  double x1 = r.high;
  double beyond = 1.0 / 7 + x1 * (-1.0 / 8 + x1 * (1.0 / 9 - x1 / 10));
  beyond = x1 * x1 * x1 * (1.0 / 3 + x1 * (-1.0 / 4 + x1 * (1.0 / 5 + x1 * (-1.0 / 6 + x1 * beyond))));
  struct pair square = product_exact(x1, x1);
  struct pair small = sum_ordered(x1, -0.5 * square.high);
  small = sum_ordered(small.high, small.low + (beyond + (r.low - x1 * r.low - 0.5 * square.low)));
  return pair_add(whole, small);
}

static struct pair logarithm(double x) {
  int exponent;
  struct pair result = logarithm_of_mantissa(x, &exponent);
  struct pair powers = sum_ordered(exponent * 0x1.62e42fefa3800p-1, exponent * 0x1.ef35793c76730p-45);
  return pair_add(powers, result);
}

/* What every logarithm gives for arguments that are not positive and finite. */
static double logarithm_outside(double x) {
  if (x == 0) return -HUGE_VAL;
  return x < 0 ? NAN : x;
}

static int has_logarithm(double x) { return x > 0 && x < HUGE_VAL; }

double log(double x) { return has_logarithm(x) ? logarithm(x).high : logarithm_outside(x); }

double log2(double x) {
  if (!has_logarithm(x)) return logarithm_outside(x);
  int exponent;
  struct pair result = pair_multiply(logarithm_of_mantissa(x, &exponent), one_over_log_2);
  return pair_add((struct pair){exponent, 0}, result).high;
}

double log10(double x) {
  return has_logarithm(x) ? pair_multiply(logarithm(x), one_over_log_10).high : logarithm_outside(x);
}

/* log(1 + x) for a pair with 1 + x > 0. */
static struct pair logarithm_plus_1(struct pair x) {
  struct pair sum = pair_add(one, x);
  return pair_add(logarithm(sum.high), (struct pair){sum.low / sum.high, 0});
}

double log1p(double x) {
  if (fabs(x) < 0x1p-54) return x;
  if (!(x > -1 && x < HUGE_VAL)) return logarithm_outside(1 + x);
  return logarithm_plus_1((struct pair){x, 0}).high;
}

static int is_whole(double y) { return fabs(y) >= 0x1p52 || trunc(y) == y; }
static int is_odd(double y) { return fabs(y) < 0x1p53 && is_whole(y) && ((int64_t)y & 1); }

double pow(double x, double y) {
  if (y == 0 || x == 1) return 1;
  if (isnan(x) || isnan(y)) return NAN;
  double sign = signbit(x) && is_odd(y) ? -1 : 1, size = fabs(x);
  if (isinf(y)) return size == 1 ? 1 : (size > 1) == (y > 0) ? HUGE_VAL : 0;
  if (size == 0 || isinf(x)) return sign * ((size == 0) == (y < 0) ? HUGE_VAL : 0);
  if (x < 0 && !is_whole(y)) return NAN;
  if (size == 1) return sign;
  struct pair base = logarithm(size);
  double rough = base.high * y;
  if (fabs(rough) > 1000) return sign * (rough > 0 ? HUGE_VAL : 0);
  if (fabs(rough) < 0x1p-60) return sign;
  return sign * exponential_of(pair_multiply(base, (struct pair){y, 0}));
}

double cbrt(double x) {
  if (x == 0 || !isfinite(x)) return x;
  int exponent;
  double m = frexp(fabs(x), &exponent);
  for (; exponent % 3 != 0; exponent++) m /= 2; /* 1/8 <= m < 1 */
  double root = 0.4 + m * (0.9 - 0.32 * m);
  for (int i = 0; i < 4; i++) root -= (root * root * root - m) / (3 * root * root);
  struct pair cube = pair_multiply(product_exact(root, root), (struct pair){root, 0});
  root -= ((cube.high - m) + cube.low) / (3 * root * root);
  return copysign(ldexp(root, exponent / 3), x);
}

double hypot(double x, double y) {
  if (isinf(x) || isinf(y)) return HUGE_VAL;
  if (isnan(x) || isnan(y)) return NAN;
  double large = fmax(fabs(x), fabs(y)), small = fmin(fabs(x), fabs(y));
  if (small <= large * 0x1p-60) return large + small;
  int exponent;
  frexp(large, &exponent);
  large = ldexp(large, -exponent);
  small = ldexp(small, -exponent);
  struct pair sum = pair_add(product_exact(large, large), product_exact(small, small));
  return ldexp(pair_sqrt(sum).high, exponent);
}

double sinh(double x) {
  double size = fabs(x);
  if (!(size >= 0x1p-28) || isinf(x)) return x;
  if (size > 40) return copysign(exponential_of(pair_add((struct pair){size, 0}, pair_negate(log_of_2))), x);
  struct pair e = exponential_minus_1((struct pair){size, 0});
  return copysign(pair_add(e, pair_divide(e, pair_add(one, e))).high / 2, x);
}

double cosh(double x) {
  double size = fabs(x);
  if (!isfinite(x)) return size;
  if (size > 40) return exponential_of(pair_add((struct pair){size, 0}, pair_negate(log_of_2)));
  struct pair e = pair_add(one, exponential_minus_1((struct pair){size, 0}));
  return pair_add(e, pair_divide(one, e)).high / 2;
}

double tanh(double x) {
  double size = fabs(x);
  if (!(size >= 0x1p-28)) return x;
  if (size > 22) return copysign(1, x);
  struct pair e = exponential_minus_1((struct pair){2 * size, 0});
  return copysign(pair_divide(e, pair_add((struct pair){2, 0}, e)).high, x);
}

double asinh(double x) {
  double size = fabs(x);
  if (!(size >= 0x1p-28) || isinf(x)) return x;
  if (size > 0x1p28) return copysign(pair_add(logarithm(size), log_of_2).high, x);
  /* x + sqrt(x^2 + 1) - 1, where the root minus one is x^2 / (root + 1) */
  struct pair square = product_exact(size, size);
  struct pair root = pair_sqrt(pair_add(one, square));
  struct pair argument = pair_add((struct pair){size, 0}, pair_divide(square, pair_add(one, root)));
  return copysign(logarithm_plus_1(argument).high, x);
}

double acosh(double x) {
  if (!(x >= 1) || isinf(x)) return x < 1 ? NAN : x;
  if (x > 0x1p28) return pair_add(logarithm(x), log_of_2).high;
  struct pair above = {x - 1, 0};
  struct pair root = pair_sqrt(pair_multiply(above, pair_add(above, (struct pair){2, 0})));
  return x == 1 ? 0 : logarithm_plus_1(pair_add(above, root)).high;
}

double atanh(double x) {
  double size = fabs(x);
  if (!(size >= 0x1p-28)) return x;
  if (size >= 1) return size == 1 ? copysign(HUGE_VAL, x) : NAN;
  struct pair below = sum_exact(1, -size);
  return copysign(logarithm_plus_1(pair_divide((struct pair){2 * size, 0}, below)).high / 2, x);
}
