// siphash: keyed hashing of short strings (SipHash-2-4 and 1-3), and how evenly it fills a table
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sip_state {
  uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, int count) { return x << count | x >> (64 - count); }

static uint64_t load64(const uint8_t *p) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++) value |= (uint64_t)p[i] << (8 * i);
  return value;
}

static void rounds(struct sip_state *s, int count) {
  while (count-- > 0) {
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 = rotate(s->v2, 32);
  }
}

static uint64_t siphash(const uint8_t *key, const void *message, size_t size, int block_rounds, int final_rounds) {
  const uint8_t *data = message;
  uint64_t k0 = load64(key), k1 = load64(key + 8), last = (uint64_t)size << 56;
  struct sip_state s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u,
                        k1 ^ 0x7465646279746573u};
  size_t whole = size / 8 * 8;
  for (size_t at = 0; at < whole; at += 8) {
    uint64_t block = load64(data + at);
    s.v3 ^= block;
    rounds(&s, block_rounds);
    s.v0 ^= block;
  }
  for (size_t i = 0; i < size % 8; i++) last |= (uint64_t)data[whole + i] << (8 * i);
  s.v3 ^= last;
  rounds(&s, block_rounds);
  s.v0 ^= last;
  s.v2 ^= 0xff;
  rounds(&s, final_rounds);
  return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* Chi-squared of hashing `count` similar names into 256 buckets; about 255 for a good hash. */
static double spread(const uint8_t *key, unsigned count) {
  unsigned buckets[256] = {0};
  for (unsigned i = 0; i < count; i++) {
    char name[24];
    int size = snprintf(name, sizeof name, "user-%u@host%u", i, i % 7);
    buckets[siphash(key, name, (size_t)size, 1, 3) & 255]++;
  }
  double expected = count / 256.0, chi_squared = 0;
  for (int i = 0; i < 256; i++) {
    double off = buckets[i] - expected;
    chi_squared += off * off / expected;
  }
  return chi_squared;
}

/* How many of the 64 output bits change, on average, when one bit of the message does. */
static double avalanche(const uint8_t *key, unsigned trials) {
  uint8_t message[16];
  uint64_t changed = 0;
  for (unsigned trial = 0; trial < trials; trial++) {
    for (int i = 0; i < 16; i++) message[i] = (uint8_t)(trial * 31 + (unsigned)i * 17);
    uint64_t before = siphash(key, message, sizeof message, 2, 4);
    unsigned bit = trial % 128;
    message[bit / 8] ^= (uint8_t)(1 << (bit % 8));
    uint64_t difference = before ^ siphash(key, message, sizeof message, 2, 4);
    for (; difference != 0; difference &= difference - 1) changed++;
  }
  return (double)changed / trials;
}

int main(int argc, char **argv) {
  unsigned count = 3000;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) count = 60000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) count = 400000;
  uint8_t key[16], message[64];
  for (int i = 0; i < 16; i++) key[i] = (uint8_t)i;
  for (int i = 0; i < 64; i++) message[i] = (uint8_t)i;
  uint64_t all = 0;
  for (size_t size = 0; size < sizeof message; size++) all = all * 31 + siphash(key, message, size, 2, 4);
  printf("empty %016lx, 15 bytes %016lx, all sizes %016lx\n", (unsigned long)siphash(key, message, 0, 2, 4),
         (unsigned long)siphash(key, message, 15, 2, 4), (unsigned long)all);
  uint64_t chained = 0;
  for (unsigned i = 0; i < count; i++) {
    memcpy(message + i % 56, &(uint8_t[8]){(uint8_t)chained, (uint8_t)(chained >> 8), (uint8_t)i}, 8);
    chained ^= siphash(key, message, i % 64, 2, 4);
  }
  printf("chained %016lx\n", (unsigned long)chained);
  printf("chi-squared %.4f, avalanche %.4f bits\n", spread(key, count), avalanche(key, count));
  return 0;
}
