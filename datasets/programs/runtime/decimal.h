/* Exact conversion between doubles and decimal digits. */
#ifndef AIOCG_DECIMAL_H
#define AIOCG_DECIMAL_H

/* Room for the digits of any finite double: the longest are the 767 of the smallest normal ones. */
enum { AIOCG_MAX_DIGITS = 800 };

/* The digits '0'..'9' of a positive finite double, without leading zeros, and their count. The decimal
 * point stands after `*point` digits (zero or negative: zeros follow it before the first digit). */
int aiocg_digits_of(double value, char *digits, int *point);

/* Rounds half to even to `keep` digits (0 or more) and returns how many are left; a carry out of the
 * first digit leaves "1" and moves the point. */
int aiocg_round_digits(char *digits, int count, int keep, int *point);

/* The double nearest to 0.d1d2d3... * 10^point. `sticky` says that non-zero digits were left out. */
double aiocg_double_of(const char *digits, int count, int point, int sticky);
#endif
