// crc32: cyclic redundancy checks bit by bit, by table and by slices of eight bytes
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES = 8 };

struct crc_tables {
  uint32_t polynomial; /* bit-reversed */
  uint32_t slices[SLICES][256];
};

static void make_tables(struct crc_tables *tables, uint32_t polynomial) {
  tables->polynomial = polynomial;
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
    tables->slices[0][byte] = crc;
  }
  for (int slice = 1; slice < SLICES; slice++) {
    for (int byte = 0; byte < 256; byte++) {
      uint32_t earlier = tables->slices[slice - 1][byte];
      tables->slices[slice][byte] = earlier >> 8 ^ tables->slices[0][earlier & 255];
    }
  }
}

static uint32_t crc_by_bits(uint32_t polynomial, const uint8_t *data, size_t size) {
  uint32_t crc = 0xffffffffu;
  for (size_t i = 0; i < size; i++) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (polynomial & (0u - (crc & 1)));
  }
  return ~crc;
}

static uint32_t continue_by_table(const struct crc_tables *tables, uint32_t crc, const uint8_t *data, size_t size) {
  while (size-- > 0) crc = crc >> 8 ^ tables->slices[0][(crc ^ *data++) & 255];
  return crc;
}

static uint32_t crc_by_table(const struct crc_tables *tables, const uint8_t *data, size_t size) {
  return ~continue_by_table(tables, 0xffffffffu, data, size);
}

static uint32_t load_little_endian(const uint8_t *p) {
  return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t crc_by_slices(const struct crc_tables *tables, const uint8_t *data, size_t size) {
  uint32_t crc = 0xffffffffu;
  for (; size >= 8; data += 8, size -= 8) {
    uint32_t low = load_little_endian(data) ^ crc, high = load_little_endian(data + 4);
    crc = tables->slices[7][low & 255] ^ tables->slices[6][low >> 8 & 255] ^ tables->slices[5][low >> 16 & 255] ^
          tables->slices[4][low >> 24] ^ tables->slices[3][high & 255] ^ tables->slices[2][high >> 8 & 255] ^
          tables->slices[1][high >> 16 & 255] ^ tables->slices[0][high >> 24];
  }
  return ~continue_by_table(tables, crc, data, size);
}

/* Product of two polynomials modulo the generator, with the coefficient of x^0 in the highest bit. */
static uint32_t multiply(uint32_t a, uint32_t b, uint32_t polynomial) {
  uint32_t product = 0;
  for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = b & 1 ? b >> 1 ^ polynomial : b >> 1;
  }
  return product;
}

/* The check of two pieces put together, from the checks of the pieces: crc(a) * x^(8 * size of b) + crc(b). */
static uint32_t combine(uint32_t crc_a, uint32_t crc_b, uint64_t size_b, uint32_t polynomial) {
  uint32_t power = 0x00800000u, shift = 0x80000000u; /* x^8 and x^0 */
  for (; size_b != 0; size_b >>= 1) {
    if (size_b & 1) shift = multiply(shift, power, polynomial);
    power = multiply(power, power, polynomial);
  }
  return multiply(crc_a, shift, polynomial) ^ crc_b;
}

static void fill(uint8_t *data, size_t size) {
  uint32_t state = 0x2545f491u;
  for (size_t i = 0; i < size; i++) {
    state = state * 1103515245u + 12345u;
    data[i] = (uint8_t)(state >> 16);
  }
}

static void check(const char *name, uint32_t polynomial, const uint8_t *data, size_t size) {
  static struct crc_tables tables;
  make_tables(&tables, polynomial);
  const uint8_t *digits = (const uint8_t *)"123456789";
  uint32_t bits = crc_by_bits(polynomial, data, size), table = crc_by_table(&tables, data, size);
  uint32_t slices = crc_by_slices(&tables, data, size);
  uint32_t head = crc_by_slices(&tables, data, size / 3);
  uint32_t tail = crc_by_slices(&tables, data + size / 3, size - size / 3);
  uint32_t combined = combine(head, tail, size - size / 3, polynomial);
  printf("%-10s check %08x, data %08x %08x %08x, %08x + %08x = %08x\n", name, crc_by_table(&tables, digits, 9), bits,
         table, slices, head, tail, combined);
}

int main(int argc, char **argv) {
  size_t size = 20000;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 400000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 5000000;
  uint8_t *data = malloc(size);
  if (data == NULL) return 1;
  fill(data, size);
  check("CRC-32", 0xedb88320u, data, size);
  check("CRC-32C", 0x82f63b78u, data, size);
  check("Koopman", 0xeb31d82eu, data, size - 5);
  free(data);
  return 0;
}
