// gcd: greatest common divisors of all pairs of small numbers
#include <stdio.h>
#include <string.h>

static unsigned gcd(unsigned a, unsigned b) {
  while (b != 0) {
    unsigned rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

int main(int argc, char **argv) {
  unsigned limit = 200;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) limit = 800;
  if (argc > 1 && strcmp(argv[1], "large") == 0) limit = 4000;
  unsigned coprime = 0, largest = 0;
  unsigned long sum = 0;
  for (unsigned a = 1; a <= limit; a++) {
    for (unsigned b = 1; b <= limit; b++) {
      unsigned divisor = gcd(a, b);
      sum += divisor;
      if (divisor == 1) coprime++;
      if (a != b && divisor > largest) largest = divisor;
    }
  }
  printf("pairs below %u: %u coprime, sum %lu, largest %u\n", limit, coprime, sum, largest);
  return 0;
}
