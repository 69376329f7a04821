// digests: MD5, SHA-1, SHA-512, SHA3-256 and BLAKE2b behind one interface, with collision search on short digests
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIGEST = 64, MAX_BLOCK = 136 };

struct digest_state {
  union {
    uint32_t words[8];
    uint64_t longs[25];
  } h;
  uint64_t length;
  uint8_t block[MAX_BLOCK];
  size_t used;
};

struct digest_kind {
  const char *name;
  size_t block_size, digest_size;
  void (*start)(struct digest_state *);
  void (*block)(struct digest_state *, const uint8_t *);
  void (*finish)(struct digest_state *, uint8_t *);
};

static uint32_t rotate32(uint32_t x, int count) { return x << count | x >> (32 - count); }
static uint64_t rotate64(uint64_t x, int count) { return x << count | x >> (64 - count); }

static uint64_t load_little(const uint8_t *p, int size) {
  uint64_t value = 0;
  while (size-- > 0) value = value << 8 | p[size];
  return value;
}

static uint64_t load_big(const uint8_t *p, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; i++) value = value << 8 | p[i];
  return value;
}

static void store_little(uint8_t *p, uint64_t value, int size) {
  for (int i = 0; i < size; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static void store_big(uint8_t *p, uint64_t value, int size) {
  for (int i = 0; i < size; i++) p[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
}

/* ---- MD5 ---- */

#define F(x, y, z) (((x) & (y)) | (~(x) & (z)))
#define G(x, y, z) (((x) & (z)) | ((y) & ~(z)))
#define H(x, y, z) ((x) ^ (y) ^ (z))
#define I(x, y, z) ((y) ^ ((x) | ~(z)))
#define STEP(mix, a, b, c, d, word, turn, constant) \
  a += mix(b, c, d) + (word) + (constant);          \
  a = rotate32(a, turn) + b;

static void md5_start(struct digest_state *s) {
  s->h.words[0] = 0x67452301;
  s->h.words[1] = 0xefcdab89;
  s->h.words[2] = 0x98badcfe;
  s->h.words[3] = 0x10325476;
}

static void md5_block(struct digest_state *s, const uint8_t *block) {
  uint32_t x[16], a = s->h.words[0], b = s->h.words[1], c = s->h.words[2], d = s->h.words[3];
  for (int i = 0; i < 16; i++) x[i] = (uint32_t)load_little(block + 4 * i, 4);
  STEP(F, a, b, c, d, x[0], 7, 0xd76aa478)
  STEP(F, d, a, b, c, x[1], 12, 0xe8c7b756)
  STEP(F, c, d, a, b, x[2], 17, 0x242070db)
  STEP(F, b, c, d, a, x[3], 22, 0xc1bdceee)
  STEP(F, a, b, c, d, x[4], 7, 0xf57c0faf)
  STEP(F, d, a, b, c, x[5], 12, 0x4787c62a)
  STEP(F, c, d, a, b, x[6], 17, 0xa8304613)
  STEP(F, b, c, d, a, x[7], 22, 0xfd469501)
  STEP(F, a, b, c, d, x[8], 7, 0x698098d8)
  STEP(F, d, a, b, c, x[9], 12, 0x8b44f7af)
  STEP(F, c, d, a, b, x[10], 17, 0xffff5bb1)
  STEP(F, b, c, d, a, x[11], 22, 0x895cd7be)
  STEP(F, a, b, c, d, x[12], 7, 0x6b901122)
  STEP(F, d, a, b, c, x[13], 12, 0xfd987193)
  STEP(F, c, d, a, b, x[14], 17, 0xa679438e)
  STEP(F, b, c, d, a, x[15], 22, 0x49b40821)
  STEP(G, a, b, c, d, x[1], 5, 0xf61e2562)
  STEP(G, d, a, b, c, x[6], 9, 0xc040b340)
  STEP(G, c, d, a, b, x[11], 14, 0x265e5a51)
  STEP(G, b, c, d, a, x[0], 20, 0xe9b6c7aa)
  STEP(G, a, b, c, d, x[5], 5, 0xd62f105d)
  STEP(G, d, a, b, c, x[10], 9, 0x02441453)
  STEP(G, c, d, a, b, x[15], 14, 0xd8a1e681)
  STEP(G, b, c, d, a, x[4], 20, 0xe7d3fbc8)
  STEP(G, a, b, c, d, x[9], 5, 0x21e1cde6)
  STEP(G, d, a, b, c, x[14], 9, 0xc33707d6)
  STEP(G, c, d, a, b, x[3], 14, 0xf4d50d87)
  STEP(G, b, c, d, a, x[8], 20, 0x455a14ed)
  STEP(G, a, b, c, d, x[13], 5, 0xa9e3e905)
  STEP(G, d, a, b, c, x[2], 9, 0xfcefa3f8)
  STEP(G, c, d, a, b, x[7], 14, 0x676f02d9)
  STEP(G, b, c, d, a, x[12], 20, 0x8d2a4c8a)
  STEP(H, a, b, c, d, x[5], 4, 0xfffa3942)
  STEP(H, d, a, b, c, x[8], 11, 0x8771f681)
  STEP(H, c, d, a, b, x[11], 16, 0x6d9d6122)
  STEP(H, b, c, d, a, x[14], 23, 0xfde5380c)
  STEP(H, a, b, c, d, x[1], 4, 0xa4beea44)
  STEP(H, d, a, b, c, x[4], 11, 0x4bdecfa9)
  STEP(H, c, d, a, b, x[7], 16, 0xf6bb4b60)
  STEP(H, b, c, d, a, x[10], 23, 0xbebfbc70)
  STEP(H, a, b, c, d, x[13], 4, 0x289b7ec6)
  STEP(H, d, a, b, c, x[0], 11, 0xeaa127fa)
  STEP(H, c, d, a, b, x[3], 16, 0xd4ef3085)
  STEP(H, b, c, d, a, x[6], 23, 0x04881d05)
  STEP(H, a, b, c, d, x[9], 4, 0xd9d4d039)
  STEP(H, d, a, b, c, x[12], 11, 0xe6db99e5)
  STEP(H, c, d, a, b, x[15], 16, 0x1fa27cf8)
  STEP(H, b, c, d, a, x[2], 23, 0xc4ac5665)
  STEP(I, a, b, c, d, x[0], 6, 0xf4292244)
  STEP(I, d, a, b, c, x[7], 10, 0x432aff97)
  STEP(I, c, d, a, b, x[14], 15, 0xab9423a7)
  STEP(I, b, c, d, a, x[5], 21, 0xfc93a039)
  STEP(I, a, b, c, d, x[12], 6, 0x655b59c3)
  STEP(I, d, a, b, c, x[3], 10, 0x8f0ccc92)
  STEP(I, c, d, a, b, x[10], 15, 0xffeff47d)
  STEP(I, b, c, d, a, x[1], 21, 0x85845dd1)
  STEP(I, a, b, c, d, x[8], 6, 0x6fa87e4f)
  STEP(I, d, a, b, c, x[15], 10, 0xfe2ce6e0)
  STEP(I, c, d, a, b, x[6], 15, 0xa3014314)
  STEP(I, b, c, d, a, x[13], 21, 0x4e0811a1)
  STEP(I, a, b, c, d, x[4], 6, 0xf7537e82)
  STEP(I, d, a, b, c, x[11], 10, 0xbd3af235)
  STEP(I, c, d, a, b, x[2], 15, 0x2ad7d2bb)
  STEP(I, b, c, d, a, x[9], 21, 0xeb86d391)
  s->h.words[0] += a;
  s->h.words[1] += b;
  s->h.words[2] += c;
  s->h.words[3] += d;
}

/* ---- SHA-1 ---- */

#define SCHEDULE(i) \
  (w[(i) & 15] = rotate32(w[((i) + 13) & 15] ^ w[((i) + 8) & 15] ^ w[((i) + 2) & 15] ^ w[(i) & 15], 1))
#define ROUND(mix, a, b, c, d, e, word, constant)                    \
  e += rotate32(a, 5) + (mix(b, c, d)) + (word) + (constant);        \
  b = rotate32(b, 30);
#define CHOICE(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define PARITY(x, y, z) ((x) ^ (y) ^ (z))
#define MAJORITY(x, y, z) (((x) & (y)) | ((z) & ((x) | (y))))
#define FIVE_ROUNDS(mix, i, word, constant)          \
  ROUND(mix, a, b, c, d, e, word(i), constant)       \
  ROUND(mix, e, a, b, c, d, word((i) + 1), constant) \
  ROUND(mix, d, e, a, b, c, word((i) + 2), constant) \
  ROUND(mix, c, d, e, a, b, word((i) + 3), constant) \
  ROUND(mix, b, c, d, e, a, word((i) + 4), constant)
#define PLAIN(i) w[i]

static void sha1_start(struct digest_state *s) {
  md5_start(s);
  s->h.words[4] = 0xc3d2e1f0;
}

static void sha1_block(struct digest_state *s, const uint8_t *block) {
  uint32_t w[16];
  uint32_t a = s->h.words[0], b = s->h.words[1], c = s->h.words[2], d = s->h.words[3], e = s->h.words[4];
  for (int i = 0; i < 16; i++) w[i] = (uint32_t)load_big(block + 4 * i, 4);
  FIVE_ROUNDS(CHOICE, 0, PLAIN, 0x5a827999)
  FIVE_ROUNDS(CHOICE, 5, PLAIN, 0x5a827999)
  FIVE_ROUNDS(CHOICE, 10, PLAIN, 0x5a827999)
  ROUND(CHOICE, a, b, c, d, e, w[15], 0x5a827999)
  ROUND(CHOICE, e, a, b, c, d, SCHEDULE(16), 0x5a827999)
  ROUND(CHOICE, d, e, a, b, c, SCHEDULE(17), 0x5a827999)
  ROUND(CHOICE, c, d, e, a, b, SCHEDULE(18), 0x5a827999)
  ROUND(CHOICE, b, c, d, e, a, SCHEDULE(19), 0x5a827999)
  FIVE_ROUNDS(PARITY, 20, SCHEDULE, 0x6ed9eba1)
  FIVE_ROUNDS(PARITY, 25, SCHEDULE, 0x6ed9eba1)
  FIVE_ROUNDS(PARITY, 30, SCHEDULE, 0x6ed9eba1)
  FIVE_ROUNDS(PARITY, 35, SCHEDULE, 0x6ed9eba1)
  FIVE_ROUNDS(MAJORITY, 40, SCHEDULE, 0x8f1bbcdc)
  FIVE_ROUNDS(MAJORITY, 45, SCHEDULE, 0x8f1bbcdc)
  FIVE_ROUNDS(MAJORITY, 50, SCHEDULE, 0x8f1bbcdc)
  FIVE_ROUNDS(MAJORITY, 55, SCHEDULE, 0x8f1bbcdc)
  FIVE_ROUNDS(PARITY, 60, SCHEDULE, 0xca62c1d6)
  FIVE_ROUNDS(PARITY, 65, SCHEDULE, 0xca62c1d6)
  FIVE_ROUNDS(PARITY, 70, SCHEDULE, 0xca62c1d6)
  FIVE_ROUNDS(PARITY, 75, SCHEDULE, 0xca62c1d6)
  s->h.words[0] += a;
  s->h.words[1] += b;
  s->h.words[2] += c;
  s->h.words[3] += d;
  s->h.words[4] += e;
}

/* ---- SHA-512 ---- */

static const uint64_t sha512_initial[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

static const uint64_t sha512_constants[80] = {
    0x428a2f98d728ae22, 0x7137449123ef65cd, 0xb5c0fbcfec4d3b2f, 0xe9b5dba58189dbbc,
    0x3956c25bf348b538, 0x59f111f1b605d019, 0x923f82a4af194f9b, 0xab1c5ed5da6d8118,
    0xd807aa98a3030242, 0x12835b0145706fbe, 0x243185be4ee4b28c, 0x550c7dc3d5ffb4e2,
    0x72be5d74f27b896f, 0x80deb1fe3b1696b1, 0x9bdc06a725c71235, 0xc19bf174cf692694,
    0xe49b69c19ef14ad2, 0xefbe4786384f25e3, 0x0fc19dc68b8cd5b5, 0x240ca1cc77ac9c65,
    0x2de92c6f592b0275, 0x4a7484aa6ea6e483, 0x5cb0a9dcbd41fbd4, 0x76f988da831153b5,
    0x983e5152ee66dfab, 0xa831c66d2db43210, 0xb00327c898fb213f, 0xbf597fc7beef0ee4,
    0xc6e00bf33da88fc2, 0xd5a79147930aa725, 0x06ca6351e003826f, 0x142929670a0e6e70,
    0x27b70a8546d22ffc, 0x2e1b21385c26c926, 0x4d2c6dfc5ac42aed, 0x53380d139d95b3df,
    0x650a73548baf63de, 0x766a0abb3c77b2a8, 0x81c2c92e47edaee6, 0x92722c851482353b,
    0xa2bfe8a14cf10364, 0xa81a664bbc423001, 0xc24b8b70d0f89791, 0xc76c51a30654be30,
    0xd192e819d6ef5218, 0xd69906245565a910, 0xf40e35855771202a, 0x106aa07032bbd1b8,
    0x19a4c116b8d2d0c8, 0x1e376c085141ab53, 0x2748774cdf8eeb99, 0x34b0bcb5e19b48a8,
    0x391c0cb3c5c95a63, 0x4ed8aa4ae3418acb, 0x5b9cca4f7763e373, 0x682e6ff3d6b2b8a3,
    0x748f82ee5defb2fc, 0x78a5636f43172f60, 0x84c87814a1f0ab72, 0x8cc702081a6439ec,
    0x90befffa23631e28, 0xa4506cebde82bde9, 0xbef9a3f7b2c67915, 0xc67178f2e372532b,
    0xca273eceea26619c, 0xd186b8c721c0c207, 0xeada7dd6cde0eb1e, 0xf57d4f7fee6ed178,
    0x06f067aa72176fba, 0x0a637dc5a2c898a6, 0x113f9804bef90dae, 0x1b710b35131c471b,
    0x28db77f523047d84, 0x32caab7b40c72493, 0x3c9ebe0a15c9bebc, 0x431d67c49c100d4c,
    0x4cc5d4becb3e42b6, 0x597f299cfc657e2a, 0x5fcb6fab3ad6faec, 0x6c44198c4a475817};

static void sha512_start(struct digest_state *s) { memcpy(s->h.longs, sha512_initial, sizeof sha512_initial); }

static void sha512_block(struct digest_state *s, const uint8_t *block) {
  uint64_t w[80], v[8];
  for (int i = 0; i < 16; i++) w[i] = load_big(block + 8 * i, 8);
  for (int i = 16; i < 80; i++) {
    uint64_t s0 = rotate64(w[i - 15], 63) ^ rotate64(w[i - 15], 56) ^ w[i - 15] >> 7;
    uint64_t s1 = rotate64(w[i - 2], 45) ^ rotate64(w[i - 2], 3) ^ w[i - 2] >> 6;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  memcpy(v, s->h.longs, sizeof v);
  for (int i = 0; i < 80; i++) {
    uint64_t s1 = rotate64(v[4], 50) ^ rotate64(v[4], 46) ^ rotate64(v[4], 23);
    uint64_t s0 = rotate64(v[0], 36) ^ rotate64(v[0], 30) ^ rotate64(v[0], 25);
    uint64_t t = v[7] + s1 + CHOICE(v[4], v[5], v[6]) + sha512_constants[i] + w[i];
    uint64_t u = s0 + MAJORITY(v[0], v[1], v[2]);
    memmove(v + 1, v, 7 * sizeof *v);
    v[4] += t;
    v[0] = t + u;
  }
  for (int i = 0; i < 8; i++) s->h.longs[i] += v[i];
}

/* ---- Endings of the three above: a one bit, zeros, the length in bits ---- */

static void pad(struct digest_state *s, const struct digest_kind *kind, int length_size, int big_endian);

static void md5_finish(struct digest_state *s, uint8_t *out);
static void sha1_finish(struct digest_state *s, uint8_t *out);
static void sha512_finish(struct digest_state *s, uint8_t *out);

/* ---- SHA3-256 (Keccak) ---- */

static const uint64_t keccak_constants[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000,
    0x000000000000808b, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
    0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
    0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
    0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

static void keccak(uint64_t a[25]) {
  static const uint8_t turns[24] = {1,  3,  6,  10, 15, 21, 28, 36, 45, 55, 2,  14,
                                    27, 41, 56, 8,  25, 43, 62, 18, 39, 61, 20, 44};
  static const uint8_t lanes[24] = {10, 7,  11, 17, 18, 3, 5,  16, 8,  21, 24, 4,
                                    15, 23, 19, 13, 12, 2, 20, 14, 22, 9,  6,  1};
  for (int round = 0; round < 24; round++) {
    uint64_t columns[5];
    for (int x = 0; x < 5; x++) columns[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
    for (int x = 0; x < 5; x++) {
      uint64_t change = columns[(x + 4) % 5] ^ rotate64(columns[(x + 1) % 5], 1);
      for (int y = 0; y < 25; y += 5) a[y + x] ^= change;
    }
    uint64_t moving = a[1];
    for (int i = 0; i < 24; i++) {
      uint64_t kept = a[lanes[i]];
      a[lanes[i]] = rotate64(moving, turns[i]);
      moving = kept;
    }
    for (int y = 0; y < 25; y += 5) {
      memcpy(columns, a + y, sizeof columns);
      for (int x = 0; x < 5; x++) a[y + x] = columns[x] ^ (~columns[(x + 1) % 5] & columns[(x + 2) % 5]);
    }
    a[0] ^= keccak_constants[round];
  }
}

static void sha3_start(struct digest_state *s) { memset(&s->h, 0, sizeof s->h); }

static void sha3_block(struct digest_state *s, const uint8_t *block) {
  for (int i = 0; i < 17; i++) s->h.longs[i] ^= load_little(block + 8 * i, 8);
  keccak(s->h.longs);
}

static void sha3_finish(struct digest_state *s, uint8_t *out) {
  memset(s->block + s->used, 0, 136 - s->used);
  s->block[s->used] ^= 0x06;
  s->block[135] ^= 0x80;
  sha3_block(s, s->block);
  for (int i = 0; i < 4; i++) store_little(out + 8 * i, s->h.longs[i], 8);
}

/* ---- BLAKE2b with 32 bytes of output ---- */

static const uint8_t blake_orders[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

#define MIX(a, b, c, d, x, y)      \
  a += b + (x);                    \
  d = rotate64(d ^ a, 32);         \
  c += d;                          \
  b = rotate64(b ^ c, 40);         \
  a += b + (y);                    \
  d = rotate64(d ^ a, 48);         \
  c += d;                          \
  b = rotate64(b ^ c, 1);

static void blake_compress(struct digest_state *s, const uint8_t *block, uint64_t length, int last) {
  uint64_t m[16], v[16];
  for (int i = 0; i < 16; i++) m[i] = load_little(block + 8 * i, 8);
  memcpy(v, s->h.longs, 8 * sizeof *v);
  memcpy(v + 8, sha512_initial, 8 * sizeof *v);
  v[12] ^= length;
  if (last) v[14] = ~v[14];
  for (int round = 0; round < 12; round++) {
    const uint8_t *order = blake_orders[round % 10];
    MIX(v[0], v[4], v[8], v[12], m[order[0]], m[order[1]])
    MIX(v[1], v[5], v[9], v[13], m[order[2]], m[order[3]])
    MIX(v[2], v[6], v[10], v[14], m[order[4]], m[order[5]])
    MIX(v[3], v[7], v[11], v[15], m[order[6]], m[order[7]])
    MIX(v[0], v[5], v[10], v[15], m[order[8]], m[order[9]])
    MIX(v[1], v[6], v[11], v[12], m[order[10]], m[order[11]])
    MIX(v[2], v[7], v[8], v[13], m[order[12]], m[order[13]])
    MIX(v[3], v[4], v[9], v[14], m[order[14]], m[order[15]])
  }
  for (int i = 0; i < 8; i++) s->h.longs[i] ^= v[i] ^ v[i + 8];
}

static void blake_start(struct digest_state *s) {
  memcpy(s->h.longs, sha512_initial, sizeof sha512_initial);
  s->h.longs[0] ^= 0x01010000 ^ 32;
}

static void blake_block(struct digest_state *s, const uint8_t *block) { blake_compress(s, block, s->length, 0); }

static void blake_finish(struct digest_state *s, uint8_t *out) {
  memset(s->block + s->used, 0, 128 - s->used);
  blake_compress(s, s->block, s->length, 1);
  for (int i = 0; i < 4; i++) store_little(out + 8 * i, s->h.longs[i], 8);
}

/* ---- The common interface ---- */

static const struct digest_kind kinds[] = {
    {"md5", 64, 16, md5_start, md5_block, md5_finish},
    {"sha1", 64, 20, sha1_start, sha1_block, sha1_finish},
    {"sha512", 128, 64, sha512_start, sha512_block, sha512_finish},
    {"sha3-256", 136, 32, sha3_start, sha3_block, sha3_finish},
    {"blake2b", 128, 32, blake_start, blake_block, blake_finish},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static void digest_start(const struct digest_kind *kind, struct digest_state *s) {
  kind->start(s);
  s->length = 0;
  s->used = 0;
}

/* A full block waits until more data comes: the last block is special in BLAKE2b. */
static void digest_add(const struct digest_kind *kind, struct digest_state *s, const void *data, size_t size) {
  const uint8_t *bytes = data;
  while (size > 0) {
    if (s->used == kind->block_size) {
      kind->block(s, s->block);
      s->used = 0;
    }
    size_t room = kind->block_size - s->used, taken = size < room ? size : room;
    memcpy(s->block + s->used, bytes, taken);
    s->used += taken;
    s->length += taken;
    bytes += taken;
    size -= taken;
  }
}

static void digest_finish(const struct digest_kind *kind, struct digest_state *s, uint8_t *out) {
  if (s->used == kind->block_size && kind->finish != blake_finish) {
    kind->block(s, s->block);
    s->used = 0;
  }
  kind->finish(s, out);
}

static void pad(struct digest_state *s, const struct digest_kind *kind, int length_size, int big_endian) {
  size_t size = kind->block_size, end = size - (size_t)length_size;
  s->block[s->used++] = 0x80;
  if (s->used > end) {
    memset(s->block + s->used, 0, size - s->used);
    kind->block(s, s->block);
    s->used = 0;
  }
  memset(s->block + s->used, 0, size - s->used);
  if (big_endian)
    store_big(s->block + size - 8, s->length * 8, 8);
  else
    store_little(s->block + size - 8, s->length * 8, 8);
  kind->block(s, s->block);
}

static void md5_finish(struct digest_state *s, uint8_t *out) {
  pad(s, &kinds[0], 8, 0);
  for (int i = 0; i < 4; i++) store_little(out + 4 * i, s->h.words[i], 4);
}

static void sha1_finish(struct digest_state *s, uint8_t *out) {
  pad(s, &kinds[1], 8, 1);
  for (int i = 0; i < 5; i++) store_big(out + 4 * i, s->h.words[i], 4);
}

static void sha512_finish(struct digest_state *s, uint8_t *out) {
  pad(s, &kinds[2], 16, 1);
  for (int i = 0; i < 8; i++) store_big(out + 8 * i, s->h.longs[i], 8);
}

static void digest(const struct digest_kind *kind, const void *data, size_t size, uint8_t *out) {
  struct digest_state s;
  digest_start(kind, &s);
  digest_add(kind, &s, data, size);
  digest_finish(kind, &s, out);
}

static void print_digest(const char *title, const struct digest_kind *kind, const uint8_t *out) {
  printf("%-8s %-6s ", kind->name, title);
  for (size_t i = 0; i < kind->digest_size; i++) printf("%02x", out[i]);
  putchar('\n');
}

/* All sizes around the blocks' ends, added in uneven pieces, folded into one digest. */
static void digest_of_sizes(const struct digest_kind *kind, const uint8_t *data, size_t limit, uint8_t *out) {
  struct digest_state all;
  digest_start(kind, &all);
  for (size_t size = 0; size < limit; size++) {
    struct digest_state s;
    digest_start(kind, &s);
    digest_add(kind, &s, data, size / 3);
    digest_add(kind, &s, data + size / 3, size - size / 3);
    digest_finish(kind, &s, out);
    digest_add(kind, &all, out, kind->digest_size);
  }
  digest_finish(kind, &all, out);
}

static uint32_t short_digest(const struct digest_kind *kind, uint32_t number, int bits) {
  uint8_t out[MAX_DIGEST], text[4];
  store_little(text, number, 4);
  digest(kind, text, sizeof text, out);
  return (uint32_t)load_little(out, 4) & ((1u << bits) - 1);
}

/* Floyd's tortoise and hare on digests cut to a few bits: two numbers with the same short digest. */
static void find_collision(const struct digest_kind *kind, int bits) {
  uint32_t start = 1u << bits, slow = short_digest(kind, start, bits), fast = short_digest(kind, slow, bits), steps = 1;
  for (; slow != fast; steps++) {
    slow = short_digest(kind, slow, bits);
    fast = short_digest(kind, short_digest(kind, fast, bits), bits);
  }
  uint32_t a = start, b = slow;
  for (;;) {
    uint32_t next_a = short_digest(kind, a, bits), next_b = short_digest(kind, b, bits);
    if (next_a == next_b) break;
    a = next_a;
    b = next_b;
    steps++;
  }
  printf("%-8s %d bits of the digests of %u and %u are %x, found in %u steps\n", kind->name, bits, a, b,
         short_digest(kind, a, bits), steps);
}

int main(int argc, char **argv) {
  size_t size = 2000;
  int bits = 10;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 60000, bits = 16;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 800000, bits = 22;
  uint8_t *data = malloc(size), out[MAX_DIGEST];
  if (data == NULL) return 1;
  uint32_t state = 1;
  for (size_t i = 0; i < size; i++) {
    state = state * 134775813u + 1u;
    data[i] = (uint8_t)(state >> 24);
  }
  for (int i = 0; i < KINDS; i++) {
    digest(&kinds[i], "abc", 3, out);
    print_digest("abc", &kinds[i], out);
    digest(&kinds[i], data, size, out);
    print_digest("data", &kinds[i], out);
    digest_of_sizes(&kinds[i], data, bits * 20 < 300 ? (size_t)bits * 20 : 300, out);
    print_digest("sizes", &kinds[i], out);
    find_collision(&kinds[i], bits - 2 * (i % 3));
  }
  free(data);
  return 0;
}
