// aes: the Advanced Encryption Standard with 128 and 256-bit keys, in CBC and CTR mode
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 16, MAX_ROUNDS = 14 };

typedef struct {
  int rounds;
  uint8_t round_keys[MAX_ROUNDS + 1][BLOCK];
} aes_key;

static uint8_t sbox[256], inverse_sbox[256];

static uint8_t times_x(uint8_t a) { return (uint8_t)(a << 1 ^ (a & 0x80 ? 0x1b : 0)); }

static uint8_t multiply(uint8_t a, uint8_t b) {
  uint8_t product = 0;
  for (; b != 0; b >>= 1, a = times_x(a))
    if (b & 1) product ^= a;
  return product;
}

/* Walks the field: p runs through the powers of 3 while q runs through their inverses. */
static void make_sboxes(void) {
  uint8_t p = 1, q = 1;
  do {
    p = (uint8_t)(p ^ times_x(p));
    q ^= (uint8_t)(q << 1);
    q ^= (uint8_t)(q << 2);
    q ^= (uint8_t)(q << 4);
    if (q & 0x80) q ^= 0x09;
    uint8_t mixed = q;
    for (int turn = 1; turn <= 4; turn++) mixed ^= (uint8_t)(q << turn | q >> (8 - turn));
    sbox[p] = mixed ^ 0x63;
  } while (p != 1);
  sbox[0] = 0x63;
  for (int i = 0; i < 256; i++) inverse_sbox[sbox[i]] = (uint8_t)i;
}

static void expand_key(aes_key *key, const uint8_t *bytes, int size) {
  uint8_t *w = key->round_keys[0];
  int words = size / 4;
  uint8_t constant = 1;
  key->rounds = words + 6;
  memcpy(w, bytes, (size_t)size);
  for (int i = words; i < 4 * (key->rounds + 1); i++) {
    uint8_t t[4];
    memcpy(t, w + 4 * (i - 1), 4);
    if (i % words == 0) {
      uint8_t first = t[0];
      t[0] = sbox[t[1]] ^ constant;
      t[1] = sbox[t[2]];
      t[2] = sbox[t[3]];
      t[3] = sbox[first];
      constant = times_x(constant);
    } else if (words > 6 && i % words == 4) {
      for (int j = 0; j < 4; j++) t[j] = sbox[t[j]];
    }
    for (int j = 0; j < 4; j++) w[4 * i + j] = w[4 * (i - words) + j] ^ t[j];
  }
}

static void add_bytes(uint8_t *to, const uint8_t *bytes) {
  for (int i = 0; i < BLOCK; i++) to[i] ^= bytes[i];
}

/* SubBytes and ShiftRows in one go: row r of the columns moves r columns to the left. */
static void substitute_and_shift(uint8_t *s) {
  uint8_t moved[BLOCK];
  for (int column = 0; column < 4; column++)
    for (int row = 0; row < 4; row++) moved[4 * column + row] = sbox[s[4 * ((column + row) % 4) + row]];
  memcpy(s, moved, BLOCK);
}

static void unshift_and_substitute(uint8_t *s) {
  uint8_t moved[BLOCK];
  for (int column = 0; column < 4; column++)
    for (int row = 0; row < 4; row++) moved[4 * ((column + row) % 4) + row] = inverse_sbox[s[4 * column + row]];
  memcpy(s, moved, BLOCK);
}

static void mix_columns(uint8_t *s) {
  for (uint8_t *c = s; c < s + BLOCK; c += 4) {
    uint8_t all = c[0] ^ c[1] ^ c[2] ^ c[3], first = c[0];
    c[0] ^= all ^ times_x(c[0] ^ c[1]);
    c[1] ^= all ^ times_x(c[1] ^ c[2]);
    c[2] ^= all ^ times_x(c[2] ^ c[3]);
    c[3] ^= all ^ times_x(c[3] ^ first);
  }
}

static void unmix_columns(uint8_t *s) {
  for (uint8_t *c = s; c < s + BLOCK; c += 4) {
    uint8_t a = c[0], b = c[1], d = c[2], e = c[3];
    c[0] = multiply(a, 14) ^ multiply(b, 11) ^ multiply(d, 13) ^ multiply(e, 9);
    c[1] = multiply(a, 9) ^ multiply(b, 14) ^ multiply(d, 11) ^ multiply(e, 13);
    c[2] = multiply(a, 13) ^ multiply(b, 9) ^ multiply(d, 14) ^ multiply(e, 11);
    c[3] = multiply(a, 11) ^ multiply(b, 13) ^ multiply(d, 9) ^ multiply(e, 14);
  }
}

static void encrypt_block(const aes_key *key, uint8_t *block) {
  add_bytes(block, key->round_keys[0]);
  for (int round = 1; round <= key->rounds; round++) {
    substitute_and_shift(block);
    if (round < key->rounds) mix_columns(block);
    add_bytes(block, key->round_keys[round]);
  }
}

static void decrypt_block(const aes_key *key, uint8_t *block) {
  for (int round = key->rounds; round >= 1; round--) {
    add_bytes(block, key->round_keys[round]);
    if (round < key->rounds) unmix_columns(block);
    unshift_and_substitute(block);
  }
  add_bytes(block, key->round_keys[0]);
}

/* Encrypts in place and pads to whole blocks; `data` has room for one block more. Returns the new size. */
static size_t cbc_encrypt(const aes_key *key, const uint8_t *initial, uint8_t *data, size_t size) {
  uint8_t padding = (uint8_t)(BLOCK - size % BLOCK);
  memset(data + size, padding, padding);
  size += padding;
  const uint8_t *previous = initial;
  for (size_t at = 0; at < size; at += BLOCK) {
    add_bytes(data + at, previous);
    encrypt_block(key, data + at);
    previous = data + at;
  }
  return size;
}

/* Returns the size without padding, or 0 when the padding is wrong. */
static size_t cbc_decrypt(const aes_key *key, const uint8_t *initial, uint8_t *data, size_t size) {
  uint8_t previous[BLOCK], current[BLOCK];
  memcpy(previous, initial, BLOCK);
  for (size_t at = 0; at < size; at += BLOCK) {
    memcpy(current, data + at, BLOCK);
    decrypt_block(key, data + at);
    add_bytes(data + at, previous);
    memcpy(previous, current, BLOCK);
  }
  uint8_t padding = data[size - 1];
  if (padding == 0 || padding > BLOCK) return 0;
  for (size_t i = 1; i <= padding; i++)
    if (data[size - i] != padding) return 0;
  return size - padding;
}

static void ctr_crypt(const aes_key *key, const uint8_t *nonce, uint8_t *data, size_t size) {
  uint8_t counter[BLOCK], stream[BLOCK];
  memcpy(counter, nonce, BLOCK);
  for (size_t at = 0; at < size; at++) {
    if (at % BLOCK == 0) {
      memcpy(stream, counter, BLOCK);
      encrypt_block(key, stream);
      for (int i = BLOCK - 1; i >= 0 && ++counter[i] == 0; i--) continue;
    }
    data[at] ^= stream[at % BLOCK];
  }
}

static void print_block(const char *title, const uint8_t *block) {
  printf("%s ", title);
  for (int i = 0; i < BLOCK; i++) printf("%02x", block[i]);
  putchar('\n');
}

static uint32_t checksum(const uint8_t *data, size_t size) {
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < size; i++) sum = (sum ^ data[i]) * 16777619u;
  return sum;
}

static void standard_example(int key_size) {
  uint8_t bytes[32], block[BLOCK];
  aes_key key;
  for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)i;
  for (int i = 0; i < BLOCK; i++) block[i] = (uint8_t)(i * 0x11);
  expand_key(&key, bytes, key_size);
  encrypt_block(&key, block);
  print_block(key_size == 16 ? "aes-128" : "aes-256", block);
  decrypt_block(&key, block);
  print_block("   back", block);
}

static void round_trip(int key_size, size_t size) {
  uint8_t bytes[32], initial[BLOCK];
  uint8_t *data = malloc(size + BLOCK), *kept = malloc(size);
  if (data == NULL || kept == NULL) abort();
  uint32_t state = 987654321u + (uint32_t)key_size;
  for (int i = 0; i < 32; i++) bytes[i] = (uint8_t)((state = state * 69069u + 1u) >> 24);
  for (int i = 0; i < BLOCK; i++) initial[i] = (uint8_t)((state = state * 69069u + 1u) >> 24);
  initial[BLOCK - 1] = 0xfe; /* so that the counter carries */
  for (size_t i = 0; i < size; i++) kept[i] = (uint8_t)((state = state * 69069u + 1u) >> 25);
  memcpy(data, kept, size);
  aes_key key;
  expand_key(&key, bytes, key_size);
  size_t padded = cbc_encrypt(&key, initial, data, size);
  printf("cbc %zu bytes, checksum %08x", padded, checksum(data, padded));
  size_t opened = cbc_decrypt(&key, initial, data, padded);
  printf(", %s", opened == size && memcmp(data, kept, size) == 0 ? "restored" : "DAMAGED");
  ctr_crypt(&key, initial, data, size);
  printf("; ctr checksum %08x", checksum(data, size));
  ctr_crypt(&key, initial, data, size);
  printf(", %s\n", memcmp(data, kept, size) == 0 ? "restored" : "DAMAGED");
  free(data);
  free(kept);
}

int main(int argc, char **argv) {
  size_t size = 1000;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 30000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 200000;
  make_sboxes();
  standard_example(16);
  standard_example(32);
  round_trip(16, size);
  round_trip(32, size + 7);
  return 0;
}
