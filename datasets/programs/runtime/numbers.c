/* The rest of stdlib.h: numbers from text, sorting and searching, pseudo-random numbers. */
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "decimal.h"

static int digit_value(char c) {
  if (isdigit((unsigned char)c)) return c - '0';
  return isalpha((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : 99;
}

static const char *skip_sign(const char *text, int *negative) {
  while (isspace((unsigned char)*text)) text++;
  *negative = *text == '-';
  return *text == '-' || *text == '+' ? text + 1 : text;
}

/* The magnitude of a number in `base`; what does not fit gives ULONG_MAX and sets *overflow. */
static unsigned long read_magnitude(const char *text, char **end, int base, int *negative, int *overflow) {
  const char *at = skip_sign(text, negative);
  int hexadecimal = at[0] == '0' && (at[1] | 32) == 'x' && digit_value(at[2]) < 16;
  if ((base == 0 || base == 16) && hexadecimal) {
    at += 2;
    base = 16;
  }
  if (base == 0) base = *at == '0' ? 8 : 10;
  const char *first = at;
  unsigned long value = 0;
  *overflow = 0;
  for (; digit_value(*at) < base; at++) {
    *overflow |= __builtin_mul_overflow(value, (unsigned long)base, &value);
    *overflow |= __builtin_add_overflow(value, (unsigned long)digit_value(*at), &value);
  }
  if (end != NULL) *end = (char *)(at == first ? text : at);
  return *overflow ? ULONG_MAX : value;
}

unsigned long strtoul(const char *text, char **end, int base) {
  int negative, overflow;
  unsigned long value = read_magnitude(text, end, base, &negative, &overflow);
  return negative && !overflow ? -value : value;
}

long strtol(const char *text, char **end, int base) {
  int negative, overflow;
  unsigned long value = read_magnitude(text, end, base, &negative, &overflow);
  if (negative) return value > (unsigned long)LONG_MAX ? LONG_MIN : -(long)value;
  return value > (unsigned long)LONG_MAX ? LONG_MAX : (long)value;
}

long long strtoll(const char *text, char **end, int base) { return strtol(text, end, base); }
unsigned long long strtoull(const char *text, char **end, int base) { return strtoul(text, end, base); }
long atol(const char *text) { return strtol(text, NULL, 10); }
long long atoll(const char *text) { return strtol(text, NULL, 10); }
int atoi(const char *text) { return (int)strtol(text, NULL, 10); }

static int starts_with_word(const char *text, const char *word) {
  for (; *word != 0; text++, word++)
    if (tolower((unsigned char)*text) != *word) return 0;
  return 1;
}

static const char *read_exponent(const char *at, int *exponent) {
  if ((*at | 32) != 'e') return at;
  const char *digits = at + 1;
  int negative = *digits == '-', value = 0;
  if (*digits == '-' || *digits == '+') digits++;
  if (!isdigit((unsigned char)*digits)) return at;
  for (; isdigit((unsigned char)*digits); digits++)
    if (value < 100000) value = value * 10 + (*digits - '0');
  *exponent += negative ? -value : value;
  return digits;
}

/* Decimal numbers, inf and nan; hexadecimal floating-point text is not read. */
double strtod(const char *text, char **end) {
  int negative;
  const char *at = skip_sign(text, &negative);
  double value = 0;
  if (starts_with_word(at, "inf")) {
    at += starts_with_word(at, "infinity") ? 8 : 3;
    value = HUGE_VAL;
  } else if (starts_with_word(at, "nan")) {
    at += 3;
    value = NAN;
  } else {
    char digits[AIOCG_MAX_DIGITS];
    int count = 0, point = 0, sticky = 0, seen = 0, after_point = 0;
    for (;; at++) {
      if (*at == '.' && !after_point) {
        after_point = 1;
        continue;
      }
      if (!isdigit((unsigned char)*at)) break;
      seen = 1;
      if (!after_point && (count > 0 || *at != '0')) point++;
      if (after_point && count == 0 && *at == '0') point--;
      if (count == 0 && *at == '0') continue;
      if (count < AIOCG_MAX_DIGITS)
        digits[count++] = *at;
      else
        sticky |= *at != '0';
    }
    if (!seen) {
      if (end != NULL) *end = (char *)text;
      return 0;
    }
    at = read_exponent(at, &point);
    value = aiocg_double_of(digits, count, point, sticky);
  }
  if (end != NULL) *end = (char *)at;
  return negative ? -value : value;
}

float strtof(const char *text, char **end) { return (float)strtod(text, end); }
double atof(const char *text) { return strtod(text, NULL); }

int abs(int value) { return value < 0 ? -value : value; }
long labs(long value) { return value < 0 ? -value : value; }
long long llabs(long long value) { return value < 0 ? -value : value; }

static void swap_bytes(char *a, char *b, size_t size) {
  for (; size > 0; a++, b++, size--) {
    char kept = *a;
    *a = *b;
    *b = kept;
  }
}

static void sift_down(char *base, size_t root, size_t count, size_t size,
                      int (*compare)(const void *, const void *)) {
  for (size_t child; (child = 2 * root + 1) < count; root = child) {
    if (child + 1 < count && compare(base + child * size, base + (child + 1) * size) < 0) child++;
    if (compare(base + root * size, base + child * size) >= 0) return;
    swap_bytes(base + root * size, base + child * size, size);
  }
}

/* A heap sort: no extra memory, no bad case. Like every qsort it does not keep equal elements in order. */
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *)) {
  for (size_t root = count / 2; root-- > 0;) sift_down(base, root, count, size, compare);
  for (size_t last = count; last-- > 1;) {
    swap_bytes(base, (char *)base + last * size, size);
    sift_down(base, 0, last, size, compare);
  }
}

void *bsearch(const void *key, const void *base, size_t count, size_t size,
              int (*compare)(const void *, const void *)) {
  const char *low = base;
  while (count > 0) {
    const char *middle = low + count / 2 * size;
    int order = compare(key, middle);
    if (order == 0) return (void *)middle;
    if (order > 0) {
      low = middle + size;
      count -= count / 2 + 1;
    } else {
      count /= 2;
    }
  }
  return NULL;
}

static uint64_t random_state = 1;

void srand(unsigned seed) { random_state = seed; }

int rand(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int)(random_state >> 33);
}
