/* Double-double arithmetic: a number is the unevaluated sum of a double and a much smaller one. */
#ifndef AIOCG_REAL_H
#define AIOCG_REAL_H
#include <math.h>
#include <stdint.h>

struct pair {
  double high;
  double low;
};

extern const struct pair aiocg_exp_table[64], aiocg_log_table[128], aiocg_atan_table[33];
extern const struct pair aiocg_sin_table[52], aiocg_cos_table[52];
extern const uint64_t aiocg_two_over_pi[20];

static inline uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
static inline double from_bits(uint64_t bits) { return __builtin_bit_cast(double, bits); }

/* a + b exactly, for |a| >= |b| or a = 0. */
static inline struct pair sum_ordered(double a, double b) {
  double sum = a + b;
  return (struct pair){sum, b - (sum - a)};
}

/* a + b exactly. */
static inline struct pair sum_exact(double a, double b) {
  double sum = a + b, rest = sum - a;
  return (struct pair){sum, (a - (sum - rest)) + (b - rest)};
}

/* The upper half of a number's bits, so that products of two halves are exact. */
static inline double upper_half(double a) {
  double scaled = 134217729.0 * a;
  return scaled - (scaled - a);
}

/* a * b exactly, where neither overflows or underflows. */
static inline struct pair product_exact(double a, double b) {
  double product = a * b, a1 = upper_half(a), b1 = upper_half(b), a2 = a - a1, b2 = b - b1;
  return (struct pair){product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

static inline struct pair pair_add(struct pair a, struct pair b) {
  struct pair sum = sum_exact(a.high, b.high);
  return sum_ordered(sum.high, sum.low + (a.low + b.low));
}

static inline struct pair pair_negate(struct pair a) { return (struct pair){-a.high, -a.low}; }

static inline struct pair pair_multiply(struct pair a, struct pair b) {
  struct pair product = product_exact(a.high, b.high);
  return sum_ordered(product.high, product.low + (a.high * b.low + a.low * b.high));
}

static inline struct pair pair_divide(struct pair a, struct pair b) {
  double quotient = a.high / b.high;
  struct pair back = product_exact(quotient, b.high);
  double rest = ((a.high - back.high) - back.low) + (a.low - quotient * b.low);
  return sum_ordered(quotient, rest / b.high);
}

static inline struct pair pair_sqrt(struct pair a) {
  if (a.high == 0) return (struct pair){0, 0};
  double root = sqrt(a.high);
  struct pair square = product_exact(root, root);
  return sum_ordered(root, ((a.high - square.high) - square.low + a.low) / (2 * root));
}

static inline struct pair pair_scale(struct pair a, double power_of_two) {
  return (struct pair){a.high * power_of_two, a.low * power_of_two};
}
#endif
