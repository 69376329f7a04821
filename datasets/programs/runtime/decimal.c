#include "decimal.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LIMB_DIGITS = 9, LIMB_BASE = 1000000000, LIMBS = AIOCG_MAX_DIGITS / LIMB_DIGITS + 2 };

static int multiply_decimal(uint32_t *limbs, int count, uint32_t factor) {
  uint64_t carry = 0;
  for (int i = 0; i < count; i++) {
    carry += (uint64_t)limbs[i] * factor;
    limbs[i] = (uint32_t)(carry % LIMB_BASE);
    carry /= LIMB_BASE;
  }
  for (; carry != 0; carry /= LIMB_BASE) limbs[count++] = (uint32_t)(carry % LIMB_BASE);
  return count;
}

int aiocg_digits_of(double value, char *digits, int *point) {
  int exponent;
  uint64_t mantissa = (uint64_t)ldexp(frexp(value, &exponent), 53);
  exponent -= 53;
  int zeros = __builtin_ctzll(mantissa);
  mantissa >>= zeros;
  exponent += zeros;

  /* m * 2^e is m * 5^-e * 10^e: for a negative e too the digits are those of a whole number. */
  uint32_t limbs[LIMBS] = {(uint32_t)(mantissa % LIMB_BASE), (uint32_t)(mantissa / LIMB_BASE)};
  int count = limbs[1] == 0 ? 1 : 2;
  int left = exponent < 0 ? -exponent : exponent, step = exponent < 0 ? 13 : 29;
  uint32_t whole_step = exponent < 0 ? 1220703125u : 1u << 29;
  for (; left >= step; left -= step) count = multiply_decimal(limbs, count, whole_step);
  uint32_t rest = 1;
  for (; left > 0; left--) rest *= exponent < 0 ? 5 : 2;
  count = multiply_decimal(limbs, count, rest);

  char reversed[LIMBS * LIMB_DIGITS];
  int length = 0;
  for (int i = 0; i < count; i++)
    for (int j = 0; j < LIMB_DIGITS; j++, limbs[i] /= 10) reversed[length++] = (char)('0' + limbs[i] % 10);
  while (reversed[length - 1] == '0') length--;
  for (int i = 0; i < length; i++) digits[i] = reversed[length - 1 - i];
  *point = length + (exponent < 0 ? exponent : 0);
  return length;
}

int aiocg_round_digits(char *digits, int count, int keep, int *point) {
  if (keep >= count) return count;
  int up = digits[keep] > '5';
  if (digits[keep] == '5') {
    int odd = keep > 0 && (digits[keep - 1] - '0') % 2 == 1;
    int tail = 0;
    for (int i = keep + 1; i < count; i++) tail |= digits[i] != '0';
    up = odd || tail;
  }
  if (!up) return keep;
  int last = keep - 1;
  while (last >= 0 && digits[last] == '9') digits[last--] = '0';
  if (last >= 0) {
    digits[last]++;
    return keep;
  }
  digits[0] = '1';
  ++*point;
  return keep == 0 ? 1 : keep;
}

/* A natural number in base 2^32, least significant word first. */
struct natural {
  uint32_t words[400];
  int count;
};

static void multiply_add(struct natural *n, uint32_t factor, uint32_t addend) {
  uint64_t carry = addend;
  for (int i = 0; i < n->count; i++) {
    carry += (uint64_t)n->words[i] * factor;
    n->words[i] = (uint32_t)carry;
    carry >>= 32;
  }
  if (carry != 0) n->words[n->count++] = (uint32_t)carry;
}

static uint32_t divide(struct natural *n, uint32_t divisor) {
  uint64_t remainder = 0;
  for (int i = n->count - 1; i >= 0; i--) {
    remainder = remainder << 32 | n->words[i];
    n->words[i] = (uint32_t)(remainder / divisor);
    remainder %= divisor;
  }
  while (n->count > 0 && n->words[n->count - 1] == 0) n->count--;
  return (uint32_t)remainder;
}

static void shift_up_words(struct natural *n, int words) {
  memmove(n->words + words, n->words, (size_t)n->count * sizeof n->words[0]);
  memset(n->words, 0, (size_t)words * sizeof n->words[0]);
  n->count += words;
}

/* The double nearest to (n + sticky/2) * 2^exponent, ties to even. */
static double nearest(const struct natural *n, int exponent, int sticky) {
  int bits = n->count * 32 - __builtin_clz(n->words[n->count - 1]);
  int kept = 53;
  if (bits + exponent < -1021) kept = bits + exponent + 1074; /* a subnormal has fewer bits */
  if (kept < 0) return 0;
  int dropped = bits - kept;
  uint64_t mantissa = 0;
  int half = 0;
  for (int i = bits - 1; i >= 0; i--) {
    int bit = n->words[i / 32] >> (i % 32) & 1;
    if (i >= dropped)
      mantissa = mantissa << 1 | (unsigned)bit;
    else if (i == dropped - 1)
      half = bit;
    else
      sticky |= bit;
  }
  if (dropped < 0) {
    mantissa <<= -dropped;
    /* Nothing was dropped. `sticky` is not set then: it comes with more than 53 bits only. */
  } else if (half && (sticky || (mantissa & 1))) {
    mantissa++;
  }
  return ldexp((double)mantissa, exponent + dropped);
}

double aiocg_double_of(const char *digits, int count, int point, int sticky) {
  while (count > 0 && *digits == '0') digits++, count--, point--;
  if (count == 0 || point < -330) return 0;
  if (point > 310) return HUGE_VAL;
  struct natural n = {{0}, 0};
  for (int i = 0; i < count; i++) multiply_add(&n, 10, (uint32_t)(digits[i] - '0'));
  int power = point - count, exponent = 0;
  for (; power >= 9; power -= 9) multiply_add(&n, LIMB_BASE, 0);
  for (; power > 0; power--) multiply_add(&n, 10, 0);
  if (power < 0) {
    /* Dividing by 10^k in steps rounds down like one division. 64 more bits than 10^k has, and some. */
    int words = -power / 9 + 4;
    shift_up_words(&n, words);
    exponent = -32 * words;
    for (; power <= -9; power += 9) sticky |= divide(&n, LIMB_BASE) != 0;
    for (; power < 0; power++) sticky |= divide(&n, 10) != 0;
  }
  return nearest(&n, exponent, sticky);
}
