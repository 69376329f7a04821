// sha256: digests, keyed digests (HMAC), key stretching (PBKDF2) and a Merkle tree
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64, DIGEST = 32 };

typedef struct {
  uint32_t state[8];
  uint64_t length;
  uint8_t pending[BLOCK];
  size_t pending_size;
} sha256_context;

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate_right(uint32_t x, int count) { return x >> count | x << (32 - count); }

static void sha256_block(uint32_t state[8], const uint8_t *block) {
  uint32_t w[64];
  for (int i = 0; i < 16; i++) {
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
           block[4 * i + 3];
  }
  for (int i = 16; i < 64; i++) {
    uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; i++) {
    uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
    uint32_t choice = (e & f) ^ (~e & g);
    uint32_t t1 = h + s1 + choice + round_constants[i] + w[i];
    uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
    uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + s0 + majority;
  }
  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

static void sha256_start(sha256_context *context) {
  static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(context->state, initial, sizeof initial);
  context->length = 0;
  context->pending_size = 0;
}

static void sha256_add(sha256_context *context, const void *data, size_t size) {
  const uint8_t *bytes = data;
  context->length += size;
  if (context->pending_size > 0) {
    size_t room = BLOCK - context->pending_size, taken = size < room ? size : room;
    memcpy(context->pending + context->pending_size, bytes, taken);
    context->pending_size += taken;
    bytes += taken;
    size -= taken;
    if (context->pending_size < BLOCK) return;
    sha256_block(context->state, context->pending);
    context->pending_size = 0;
  }
  for (; size >= BLOCK; bytes += BLOCK, size -= BLOCK) sha256_block(context->state, bytes);
  memcpy(context->pending, bytes, size);
  context->pending_size = size;
}

static void sha256_finish(sha256_context *context, uint8_t digest[DIGEST]) {
  uint64_t bits = context->length * 8;
  uint8_t padding[BLOCK + 8] = {0x80};
  size_t padding_size = (context->pending_size < 56 ? 56 : 120) - context->pending_size;
  for (int i = 0; i < 8; i++) padding[padding_size + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
  sha256_add(context, padding, padding_size + 8);
  for (int i = 0; i < DIGEST; i++) digest[i] = (uint8_t)(context->state[i / 4] >> (24 - 8 * (i % 4)));
}

static void sha256(const void *data, size_t size, uint8_t digest[DIGEST]) {
  sha256_context context;
  sha256_start(&context);
  sha256_add(&context, data, size);
  sha256_finish(&context, digest);
}

struct hmac_key {
  sha256_context inner, outer;
};

static void hmac_prepare(struct hmac_key *prepared, const void *key, size_t size) {
  uint8_t block[BLOCK] = {0}, padded[BLOCK];
  if (size > BLOCK)
    sha256(key, size, block);
  else
    memcpy(block, key, size);
  for (int i = 0; i < BLOCK; i++) padded[i] = block[i] ^ 0x36;
  sha256_start(&prepared->inner);
  sha256_add(&prepared->inner, padded, BLOCK);
  for (int i = 0; i < BLOCK; i++) padded[i] = block[i] ^ 0x5c;
  sha256_start(&prepared->outer);
  sha256_add(&prepared->outer, padded, BLOCK);
}

static void hmac(const struct hmac_key *key, const void *data, size_t size, uint8_t mac[DIGEST]) {
  sha256_context context = key->inner;
  uint8_t inner[DIGEST];
  sha256_add(&context, data, size);
  sha256_finish(&context, inner);
  context = key->outer;
  sha256_add(&context, inner, DIGEST);
  sha256_finish(&context, mac);
}

/* One block of PBKDF2: enough for a 32-byte key. */
static void stretch_key(const char *password, const char *salt, unsigned iterations, uint8_t key[DIGEST]) {
  struct hmac_key prepared;
  uint8_t first[BLOCK], round[DIGEST];
  size_t salt_size = strlen(salt);
  memcpy(first, salt, salt_size);
  memcpy(first + salt_size, "\0\0\0\1", 4);
  hmac_prepare(&prepared, password, strlen(password));
  hmac(&prepared, first, salt_size + 4, round);
  memcpy(key, round, DIGEST);
  for (unsigned i = 1; i < iterations; i++) {
    hmac(&prepared, round, DIGEST, round);
    for (int j = 0; j < DIGEST; j++) key[j] ^= round[j];
  }
}

static void merkle_root(const uint8_t *data, size_t leaves, size_t leaf_size, uint8_t root[DIGEST]) {
  if (leaves == 1) {
    sha256(data, leaf_size, root);
    return;
  }
  uint8_t children[2 * DIGEST];
  size_t left = (leaves + 1) / 2;
  merkle_root(data, left, leaf_size, children);
  merkle_root(data + left * leaf_size, leaves - left, leaf_size, children + DIGEST);
  sha256(children, sizeof children, root);
}

static void print_digest(const char *title, const uint8_t *digest) {
  printf("%-8s ", title);
  for (int i = 0; i < DIGEST; i++) printf("%02x", digest[i]);
  putchar('\n');
}

int main(int argc, char **argv) {
  size_t size = 8192;
  unsigned iterations = 20;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 200000, iterations = 800;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 4000000, iterations = 20000;
  uint8_t *data = malloc(size), digest[DIGEST];
  if (data == NULL) return 1;
  uint32_t state = 12345;
  for (size_t i = 0; i < size; i++) {
    state = state * 1664525u + 1013904223u;
    data[i] = (uint8_t)(state >> 24);
  }
  sha256("", 0, digest);
  print_digest("empty", digest);
  sha256("abc", 3, digest);
  print_digest("abc", digest);
  sha256(data, size, digest);
  print_digest("data", digest);
  sha256_context pieces;
  sha256_start(&pieces);
  for (size_t at = 0, step = 1; at < size; at += step, step = step % 150 + 7) {
    sha256_add(&pieces, data + at, step < size - at ? step : size - at);
  }
  sha256_finish(&pieces, digest);
  print_digest("pieces", digest);
  struct hmac_key key;
  hmac_prepare(&key, "Jefe", 4);
  hmac(&key, "what do ya want for nothing?", 28, digest);
  print_digest("hmac", digest);
  hmac_prepare(&key, data, 131);
  hmac(&key, data, size / 2, digest);
  print_digest("hmac", digest);
  stretch_key("password", "salt", iterations, digest);
  print_digest("pbkdf2", digest);
  merkle_root(data, size / 1000, 1000, digest);
  print_digest("merkle", digest);
  free(data);
  return 0;
}
