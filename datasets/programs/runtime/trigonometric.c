/* Trigonometric functions and their inverses, from tables at steps of 1/64 and 1/32 and short series.
 * Results are within 0.51 units in the last place; arguments of any size are reduced exactly. */
#include "real.h"

static const struct pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
static const struct pair whole_pi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};

/* x - n * pi/2 for |x| < 2^20, with pi/2 in four parts whose products with n are exact (but the last). */
static struct pair reduce_moderate(double x, int *quadrant) {
  double count = rint(x * (2 / 3.14159265358979323846));
  *quadrant = (int)count & 3;
  struct pair r = sum_exact(x - count * 0x1.921fb54400000p+0, -count * 0x1.0b4611a600000p-34);
  struct pair rest = sum_exact(-count * 0x1.3198a2e000000p-69, -count * 0x1.b839a252049c1p-104);
  return pair_add(r, rest);
}

/* 64 bits of 2/pi from bit `from` after the binary point on; bits before the point are zero. */
static uint64_t two_over_pi_bits(int from) {
  if (from < 0) return from <= -64 ? 0 : aiocg_two_over_pi[0] >> -from;
  int word = from / 64, shift = from % 64;
  uint64_t bits = aiocg_two_over_pi[word] << shift;
  return shift == 0 ? bits : bits | aiocg_two_over_pi[word + 1] >> (64 - shift);
}

/* For any larger x = m * 2^e: m times those 192 bits of 2/pi that decide x / (pi/2) modulo 4. */
static struct pair reduce_large(double x, int *quadrant) {
  int exponent;
  uint64_t m = (uint64_t)ldexp(frexp(fabs(x), &exponent), 53);
  int from = exponent - 53 - 2;
  unsigned __int128 low = (unsigned __int128)m * two_over_pi_bits(from + 128);
  unsigned __int128 middle = (unsigned __int128)m * two_over_pi_bits(from + 64) + (uint64_t)(low >> 64);
  uint64_t top = m * two_over_pi_bits(from) + (uint64_t)(middle >> 64);
  /* Two bits of quadrant, then the fraction: as a number in [-1/2, 1/2) with the quadrant rounded. */
  *quadrant = (int)(top >> 62);
  unsigned __int128 fraction = ((unsigned __int128)top << 64 | (uint64_t)middle) << 2 | (uint64_t)low >> 62;
  int negative = (int)(fraction >> 127);
  if (negative) {
    ++*quadrant;
    fraction = -fraction;
  }
  double high = (double)(uint64_t)(fraction >> 75);
  double low_part = (double)(uint64_t)(fraction >> 22 & ((1ull << 53) - 1));
  struct pair turn = sum_ordered(high * 0x1p-53, low_part * 0x1p-106);
  struct pair r = pair_multiply(turn, half_pi);
  if (negative) r = pair_negate(r);
  if (x < 0) {
    r = pair_negate(r);
    *quadrant = -*quadrant;
  }
  *quadrant &= 3;
  return r;
}

static struct pair reduce(double x, int *quadrant) {
  *quadrant = 0;
  if (fabs(x) < 0.785) return (struct pair){x, 0};
  return fabs(x) < 0x1p20 ? reduce_moderate(x, quadrant) : reduce_large(x, quadrant);
}

/* Sine and cosine of r, |r| <= 0.8: the nearest table entry turned by the small angle left. */
static void sine_and_cosine(struct pair r, struct pair *sine, struct pair *cosine) {
  int negative = r.high < 0;
  if (negative) r = pair_negate(r);
  int index = (int)(r.high * 64 + 0.5);
  struct pair d = sum_exact(r.high - index / 64.0, r.low);
  double z = d.high * d.high;
  double sine_beyond = d.high * z * (-1.0 / 6 + z * (1.0 / 120 - z / 5040));
  struct pair small_sine = sum_ordered(d.high, d.low + sine_beyond);
  struct pair square = product_exact(d.high, d.high);
  double cosine_beyond = z * z * (1.0 / 24 - z * (1.0 / 720 - z / 40320)) - d.high * d.low - 0.5 * square.low;
  struct pair cosine_less_1 = sum_ordered(-0.5 * square.high, cosine_beyond);
  struct pair s = aiocg_sin_table[index], c = aiocg_cos_table[index];
  struct pair s_change = pair_add(pair_multiply(c, small_sine), pair_multiply(s, cosine_less_1));
  struct pair c_change = pair_add(pair_multiply(c, cosine_less_1), pair_negate(pair_multiply(s, small_sine)));
  *sine = pair_add(s, s_change);
  if (negative) *sine = pair_negate(*sine);
  *cosine = pair_add(c, c_change);
}

static void turned(double x, struct pair *sine, struct pair *cosine) {
  int quadrant;
  struct pair s, c;
  sine_and_cosine(reduce(x, &quadrant), &s, &c);
  *sine = quadrant & 1 ? c : s;
  *cosine = quadrant & 1 ? s : c;
  if (quadrant & 2) *sine = pair_negate(*sine);
  if (quadrant == 1 || quadrant == 2) *cosine = pair_negate(*cosine);
}

void sincos(double x, double *sine, double *cosine) {
  if (!isfinite(x)) {
    *sine = *cosine = NAN;
    return;
  }
  struct pair s, c;
  turned(x, &s, &c);
  *sine = fabs(x) < 0x1p-27 ? x : s.high;
  *cosine = c.high;
}

double sin(double x) {
  double sine, cosine;
  sincos(x, &sine, &cosine);
  return sine;
}

double cos(double x) {
  double sine, cosine;
  sincos(x, &sine, &cosine);
  return cosine;
}

double tan(double x) {
  if (!isfinite(x)) return NAN;
  if (fabs(x) < 0x1p-27) return x;
  struct pair s, c;
  turned(x, &s, &c);
  return pair_divide(s, c).high;
}

/* atan(y / x) for 0 <= y <= x: the nearest table entry and the angle from it, by the addition theorem. */
static struct pair angle_below_diagonal(struct pair y, struct pair x) {
  int index = (int)(y.high / x.high * 32 + 0.5);
  struct pair slope = {index / 32.0, 0};
  struct pair d = pair_divide(pair_add(y, pair_negate(pair_multiply(slope, x))),
                              pair_add(x, pair_multiply(slope, y)));
  double z = d.high * d.high;
  double beyond = d.high * z * (-1.0 / 3 + z * (1.0 / 5 + z * (-1.0 / 7 + z * (1.0 / 9 - z / 11))));
  return pair_add(aiocg_atan_table[index], sum_ordered(d.high, d.low + beyond));
}

static struct pair angle_in_quadrant(struct pair y, struct pair x) {
  if (y.high <= x.high) return angle_below_diagonal(y, x);
  return pair_add(half_pi, pair_negate(angle_below_diagonal(x, y)));
}

/* The angle of (x, y) for y >= 0. */
static double angle(struct pair y, struct pair x) {
  if (x.high >= 0) return angle_in_quadrant(y, x).high;
  return pair_add(whole_pi, pair_negate(angle_in_quadrant(y, pair_negate(x)))).high;
}

double atan(double x) {
  double size = fabs(x);
  if (!(size >= 0x1p-27)) return x;
  if (size > 0x1p60) return copysign(half_pi.high, x);
  return copysign(angle_in_quadrant((struct pair){size, 0}, (struct pair){1, 0}).high, x);
}

double atan2(double y, double x) {
  if (isnan(x) || isnan(y)) return NAN;
  double up = fabs(y), across = fabs(x);
  if (isinf(y) || isinf(x)) {
    if (isinf(y) && isinf(x)) return copysign(x > 0 ? half_pi.high / 2 : 0x1.2d97c7f3321d2p+1, y);
    if (isinf(y)) return copysign(half_pi.high, y);
    return copysign(x > 0 ? 0 : whole_pi.high, y);
  }
  if (up == 0) return copysign(signbit(x) ? whole_pi.high : 0, y);
  int exponent_y, exponent_x;
  double scaled_y = frexp(up, &exponent_y), scaled_x = frexp(across, &exponent_x);
  int difference = exponent_y - exponent_x;
  if (across == 0 || difference > 64) return copysign(half_pi.high, y);
  if (difference < -64) return copysign(x > 0 ? up / across : whole_pi.high, y);
  scaled_y = ldexp(scaled_y, difference);
  return copysign(angle((struct pair){scaled_y, 0}, (struct pair){copysign(scaled_x, x), 0}), y);
}

/* sqrt(1 - x^2) for |x| <= 1. */
static struct pair other_side(double x) {
  return pair_sqrt(pair_multiply(sum_exact(1, -x), sum_exact(1, x)));
}

double asin(double x) {
  double size = fabs(x);
  if (!(size <= 1)) return NAN;
  if (size < 0x1p-27) return x;
  return copysign(angle((struct pair){size, 0}, other_side(x)), x);
}

double acos(double x) {
  if (!(fabs(x) <= 1)) return NAN;
  return angle(other_side(x), (struct pair){x, 0});
}
