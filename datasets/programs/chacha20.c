// chacha20: the stream cipher, the Poly1305 authenticator and the two together (RFC 8439)
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t load32(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void store32(uint8_t *p, uint32_t value) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t rotate(uint32_t x, int count) { return x << count | x >> (32 - count); }

static void quarter_round(uint32_t *x, int a, int b, int c, int d) {
  x[a] += x[b];
  x[d] = rotate(x[d] ^ x[a], 16);
  x[c] += x[d];
  x[b] = rotate(x[b] ^ x[c], 12);
  x[a] += x[b];
  x[d] = rotate(x[d] ^ x[a], 8);
  x[c] += x[d];
  x[b] = rotate(x[b] ^ x[c], 7);
}

static void chacha20_block(const uint8_t *key, uint32_t counter, const uint8_t *nonce, uint8_t out[64]) {
  static const char constants[] = "expand 32-byte k";
  uint32_t start[16], x[16];
  for (int i = 0; i < 4; i++) start[i] = load32((const uint8_t *)constants + 4 * i);
  for (int i = 0; i < 8; i++) start[4 + i] = load32(key + 4 * i);
  start[12] = counter;
  for (int i = 0; i < 3; i++) start[13 + i] = load32(nonce + 4 * i);
  memcpy(x, start, sizeof x);
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 4; i++) quarter_round(x, i, 4 + i, 8 + i, 12 + i);
    for (int i = 0; i < 4; i++) quarter_round(x, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
  }
  for (int i = 0; i < 16; i++) store32(out + 4 * i, x[i] + start[i]);
}

static void chacha20(const uint8_t *key, uint32_t counter, const uint8_t *nonce, uint8_t *data, size_t size) {
  uint8_t stream[64];
  for (size_t at = 0; at < size; at += 64) {
    size_t length = size - at < 64 ? size - at : 64;
    chacha20_block(key, counter++, nonce, stream);
    for (size_t i = 0; i < length; i++) data[at + i] ^= stream[i];
  }
}

/* Numbers modulo 2^130 - 5 in five limbs of 26 bits. */
struct poly1305 {
  uint32_t r[5], sum[5];
  uint8_t pad[16], pending[16];
  size_t pending_size;
};

static void load_limbs(uint32_t limbs[5], const uint8_t *block, uint32_t top) {
  limbs[0] = load32(block) & 0x3ffffff;
  limbs[1] = load32(block + 3) >> 2 & 0x3ffffff;
  limbs[2] = load32(block + 6) >> 4 & 0x3ffffff;
  limbs[3] = load32(block + 9) >> 6;
  limbs[4] = load32(block + 12) >> 8 | top << 24;
}

static void poly1305_start(struct poly1305 *p, const uint8_t key[32]) {
  uint8_t clamped[16];
  memcpy(clamped, key, 16);
  for (int i = 3; i < 16; i += 4) clamped[i] &= 15;
  for (int i = 4; i < 16; i += 4) clamped[i] &= 252;
  load_limbs(p->r, clamped, 0);
  memset(p->sum, 0, sizeof p->sum);
  memcpy(p->pad, key + 16, 16);
  p->pending_size = 0;
}

static void carry(uint32_t h[5], const uint64_t d[5]) {
  uint64_t c = 0;
  for (int i = 0; i < 5; i++) {
    c += d[i];
    h[i] = (uint32_t)c & 0x3ffffff;
    c >>= 26;
  }
  c = c * 5 + h[0];
  h[0] = (uint32_t)c & 0x3ffffff;
  h[1] += (uint32_t)(c >> 26);
}

static void poly1305_block(struct poly1305 *p, const uint8_t *block, uint32_t top) {
  uint32_t m[5];
  uint64_t d[5] = {0};
  load_limbs(m, block, top);
  for (int i = 0; i < 5; i++) m[i] += p->sum[i];
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < 5; j++) {
      uint64_t product = (uint64_t)m[i] * p->r[j];
      if (i + j < 5)
        d[i + j] += product;
      else
        d[i + j - 5] += product * 5; /* 2^130 is 5 */
    }
  }
  carry(p->sum, d);
}

static void poly1305_add(struct poly1305 *p, const uint8_t *data, size_t size) {
  for (; size > 0; data++, size--) {
    p->pending[p->pending_size++] = *data;
    if (p->pending_size == 16) {
      poly1305_block(p, p->pending, 1);
      p->pending_size = 0;
    }
  }
}

static void poly1305_finish(struct poly1305 *p, uint8_t tag[16]) {
  if (p->pending_size > 0) {
    p->pending[p->pending_size++] = 1;
    memset(p->pending + p->pending_size, 0, 16 - p->pending_size);
    poly1305_block(p, p->pending, 0);
  }
  uint64_t wide[5];
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < 5; i++) wide[i] = p->sum[i];
    carry(p->sum, wide);
  }
  /* Take the modulus away once if the sum reaches it: adding 5 then carries out of bit 130. */
  uint32_t reduced[5], c = 5;
  for (int i = 0; i < 5; i++) {
    c += p->sum[i];
    reduced[i] = c & 0x3ffffff;
    c >>= 26;
  }
  const uint32_t *h = c != 0 ? reduced : p->sum;
  uint32_t words[4] = {h[0] | h[1] << 26, h[1] >> 6 | h[2] << 20, h[2] >> 12 | h[3] << 14, h[3] >> 18 | h[4] << 8};
  uint64_t total = 0;
  for (int i = 0; i < 4; i++) {
    total += (uint64_t)words[i] + load32(p->pad + 4 * i);
    store32(tag + 4 * i, (uint32_t)total);
    total >>= 32;
  }
}

static void add_padded(struct poly1305 *p, const uint8_t *data, size_t size) {
  static const uint8_t zeros[16];
  poly1305_add(p, data, size);
  poly1305_add(p, zeros, (16 - size % 16) % 16);
}

static void authenticate(const uint8_t *key, const uint8_t *nonce, const uint8_t *extra, size_t extra_size,
                         const uint8_t *data, size_t size, uint8_t tag[16]) {
  uint8_t one_time_key[64], lengths[16] = {0};
  struct poly1305 p;
  chacha20_block(key, 0, nonce, one_time_key);
  poly1305_start(&p, one_time_key);
  add_padded(&p, extra, extra_size);
  add_padded(&p, data, size);
  store32(lengths, (uint32_t)extra_size);
  store32(lengths + 8, (uint32_t)size);
  poly1305_add(&p, lengths, sizeof lengths);
  poly1305_finish(&p, tag);
}

static void seal(const uint8_t *key, const uint8_t *nonce, const uint8_t *extra, size_t extra_size, uint8_t *data,
                 size_t size, uint8_t tag[16]) {
  chacha20(key, 1, nonce, data, size);
  authenticate(key, nonce, extra, extra_size, data, size, tag);
}

static int open_sealed(const uint8_t *key, const uint8_t *nonce, const uint8_t *extra, size_t extra_size,
                       uint8_t *data, size_t size, const uint8_t tag[16]) {
  uint8_t expected[16], difference = 0;
  authenticate(key, nonce, extra, extra_size, data, size, expected);
  for (int i = 0; i < 16; i++) difference |= tag[i] ^ expected[i];
  if (difference != 0) return 0;
  chacha20(key, 1, nonce, data, size);
  return 1;
}

static void print_hex(const char *title, const uint8_t *data, int size) {
  printf("%-9s ", title);
  for (int i = 0; i < size; i++) printf("%02x", data[i]);
  putchar('\n');
}

static void standard_example(void) {
  static const char text[] =
      "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be "
      "it.";
  static const uint8_t extra[12] = {0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7};
  static const uint8_t nonce[12] = {7, 0, 0, 0, 0x40, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47};
  uint8_t key[32], data[sizeof text], tag[16];
  for (int i = 0; i < 32; i++) key[i] = (uint8_t)(0x80 + i);
  memcpy(data, text, sizeof text);
  seal(key, nonce, extra, sizeof extra, data, sizeof text - 1, tag);
  print_hex("sealed", data, 16);
  print_hex("tag", tag, 16);
  int opened = open_sealed(key, nonce, extra, sizeof extra, data, sizeof text - 1, tag);
  printf("opened    %d %.22s\n", opened, (const char *)data);
}

int main(int argc, char **argv) {
  size_t size = 4000;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 120000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 1200000;
  standard_example();
  uint8_t *data = malloc(size), *kept = malloc(size);
  if (data == NULL || kept == NULL) return 1;
  uint8_t key[32], nonce[12] = {0}, tag[16];
  uint32_t state = 1;
  for (int i = 0; i < 32; i++) key[i] = (uint8_t)((state = state * 22695477u + 1u) >> 16);
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)((state = state * 22695477u + 1u) >> 16);
  memcpy(kept, data, size);
  int accepted = 0, forged = 0;
  for (uint32_t message = 0; message < 4; message++) {
    size_t length = size - message * 37;
    store32(nonce, message);
    seal(key, nonce, key, message * 5, data, length, tag);
    print_hex("tag", tag, 16);
    data[length / 2] ^= 1;
    forged += open_sealed(key, nonce, key, message * 5, data, length, tag);
    data[length / 2] ^= 1;
    accepted += open_sealed(key, nonce, key, message * 5, data, length, tag);
  }
  printf("accepted  %d, forged %d, %s\n", accepted, forged, memcmp(data, kept, size) == 0 ? "restored" : "DAMAGED");
  free(data);
  free(kept);
  return 0;
}
