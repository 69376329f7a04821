/* What code generators call for operations that no instruction does. Clang's own library of these is linked
 * after this one where it is installed; these few are enough for what our programs and LLVM's passes use. */
#include <stdint.h>

typedef __int128 int128;
typedef unsigned __int128 uint128;

/* Shift and subtract: a `/` here would call this very function. */
static uint128 divide(uint128 dividend, uint128 divisor, uint128 *remainder) {
  if ((dividend | divisor) >> 64 == 0) {
    *remainder = (uint64_t)dividend % (uint64_t)divisor;
    return (uint64_t)dividend / (uint64_t)divisor;
  }
  uint128 quotient = 0, rest = 0;
  for (int i = 127; i >= 0; i--) {
    int carry = (int)(rest >> 127);
    rest = rest << 1 | (dividend >> i & 1);
    if (carry || rest >= divisor) {
      rest -= divisor;
      quotient |= (uint128)1 << i;
    }
  }
  *remainder = rest;
  return quotient;
}

static uint128 magnitude(int128 x) { return x < 0 ? -(uint128)x : (uint128)x; }

uint128 __udivti3(uint128 a, uint128 b) {
  uint128 rest;
  return divide(a, b, &rest);
}

uint128 __umodti3(uint128 a, uint128 b) {
  uint128 rest;
  divide(a, b, &rest);
  return rest;
}

int128 __divti3(int128 a, int128 b) {
  uint128 rest, quotient = divide(magnitude(a), magnitude(b), &rest);
  return (int128)((a < 0) != (b < 0) ? -quotient : quotient);
}

int128 __modti3(int128 a, int128 b) {
  uint128 rest;
  divide(magnitude(a), magnitude(b), &rest);
  return (int128)(a < 0 ? -rest : rest);
}

int __popcountdi2(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555;
  x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
  return (int)(x * 0x0101010101010101 >> 56);
}

int __popcountsi2(uint32_t x) { return __popcountdi2(x); }

/* LLVM turns a multiplication that is checked for overflow into a call where the target cannot check. */
int64_t __mulodi4(int64_t a, int64_t b, int *overflow) {
  int128 product = (int128)a * b;
  *overflow = product != (int64_t)product;
  return (int64_t)product;
}

double __powidf2(double x, int exponent) {
  double result = 1;
  for (unsigned left = exponent < 0 ? -(unsigned)exponent : (unsigned)exponent; left != 0; left >>= 1, x *= x)
    if (left & 1) result *= x;
  return exponent < 0 ? 1 / result : result;
}

float __powisf2(float x, int exponent) {
  float result = 1;
  for (unsigned left = exponent < 0 ? -(unsigned)exponent : (unsigned)exponent; left != 0; left >>= 1, x *= x)
    if (left & 1) result *= x;
  return exponent < 0 ? 1 / result : result;
}
