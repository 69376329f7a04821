// lz77: compression by back references found with hash chains, with lazy matching, and its inverse
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  WINDOW = 1 << 15,
  HASH_BITS = 14,
  MIN_MATCH = 4,
  MAX_CHAIN = 48,
  NICE_LENGTH = 128,
};

struct buffer {
  uint8_t *bytes;
  size_t size, capacity;
};

struct match {
  size_t length, distance;
};

struct finder {
  const uint8_t *data;
  size_t size;
  int32_t heads[1 << HASH_BITS];
  int32_t previous[WINDOW];
};

struct statistics {
  size_t matches, literals, longest;
};

static void append(struct buffer *b, const uint8_t *bytes, size_t size) {
  if (size == 0) return;
  if (b->size + size > b->capacity) {
    b->capacity = 2 * (b->size + size) + 64;
    b->bytes = realloc(b->bytes, b->capacity);
    if (b->bytes == NULL) abort();
  }
  memcpy(b->bytes + b->size, bytes, size);
  b->size += size;
}

static void append_byte(struct buffer *b, uint8_t byte) { append(b, &byte, 1); }

/* Seven bits to a byte, lowest first; the high bit says that more follow. */
static void append_number(struct buffer *b, size_t number) {
  for (; number >= 128; number >>= 7) append_byte(b, (uint8_t)(number | 128));
  append_byte(b, (uint8_t)number);
}

static uint32_t hash_at(const uint8_t *p) {
  uint32_t four = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
  return four * 2654435761u >> (32 - HASH_BITS);
}

static void finder_start(struct finder *f, const uint8_t *data, size_t size) {
  f->data = data;
  f->size = size;
  for (int i = 0; i < 1 << HASH_BITS; i++) f->heads[i] = -1;
}

static void finder_insert(struct finder *f, size_t at) {
  if (at + MIN_MATCH > f->size) return;
  uint32_t hash = hash_at(f->data + at);
  f->previous[at % WINDOW] = f->heads[hash];
  f->heads[hash] = (int32_t)at;
}

static size_t common_length(const uint8_t *a, const uint8_t *b, const uint8_t *end) {
  const uint8_t *start = b;
  while (b < end && *a == *b) a++, b++;
  return (size_t)(b - start);
}

static struct match longest_match(const struct finder *f, size_t at) {
  struct match best = {0, 0};
  if (at + MIN_MATCH > f->size) return best;
  const uint8_t *here = f->data + at, *end = f->data + f->size;
  int32_t candidate = f->heads[hash_at(here)];
  for (int chain = 0; chain < MAX_CHAIN && candidate >= 0 && at - (size_t)candidate < WINDOW; chain++) {
    const uint8_t *there = f->data + candidate;
    if (best.length == 0 || (at + best.length < f->size && there[best.length] == here[best.length])) {
      size_t length = common_length(there, here, end);
      if (length >= MIN_MATCH && length > best.length) {
        best.length = length;
        best.distance = at - (size_t)candidate;
        if (length >= NICE_LENGTH) break;
      }
    }
    candidate = f->previous[(size_t)candidate % WINDOW];
  }
  return best;
}

/* A step of the format: how many literals, the literals, then length - MIN_MATCH + 1 (0: end) and distance. */
static void write_step(struct buffer *out, const uint8_t *literals, size_t count, struct match m) {
  append_number(out, count);
  append(out, literals, count);
  append_number(out, m.length == 0 ? 0 : m.length - MIN_MATCH + 1);
  if (m.length != 0) append_number(out, m.distance);
}

static struct statistics compress(const uint8_t *data, size_t size, struct buffer *out) {
  static struct finder finder;
  struct statistics statistics = {0, 0, 0};
  finder_start(&finder, data, size);
  size_t literals_from = 0, at = 0;
  while (at < size) {
    struct match m = longest_match(&finder, at);
    finder_insert(&finder, at);
    if (m.length == 0) {
      at++;
      continue;
    }
    if (m.length < NICE_LENGTH) { /* a match one byte later may be longer */
      struct match later = longest_match(&finder, at + 1);
      if (later.length > m.length + 1) {
        m = later;
        finder_insert(&finder, ++at);
      }
    }
    write_step(out, data + literals_from, at - literals_from, m);
    statistics.matches++;
    statistics.literals += at - literals_from;
    if (m.length > statistics.longest) statistics.longest = m.length;
    for (size_t i = 1; i < m.length; i++) finder_insert(&finder, at + i);
    at += m.length;
    literals_from = at;
  }
  statistics.literals += size - literals_from;
  write_step(out, data + literals_from, size - literals_from, (struct match){0, 0});
  return statistics;
}

static int read_number(const struct buffer *in, size_t *at, size_t *number) {
  *number = 0;
  for (unsigned shift = 0; *at < in->size && shift < 56; shift += 7) {
    uint8_t byte = in->bytes[(*at)++];
    *number |= (size_t)(byte & 127) << shift;
    if (byte < 128) return 1;
  }
  return 0;
}

/* Returns 0 when the input is damaged. */
static int decompress(const struct buffer *in, struct buffer *out) {
  size_t at = 0;
  for (;;) {
    size_t count, length, distance;
    if (!read_number(in, &at, &count) || count > in->size - at) return 0;
    append(out, in->bytes + at, count);
    at += count;
    if (!read_number(in, &at, &length)) return 0;
    if (length == 0) return at == in->size;
    if (!read_number(in, &at, &distance) || distance == 0 || distance > out->size) return 0;
    for (length += MIN_MATCH - 1; length > 0; length--) append_byte(out, out->bytes[out->size - distance]);
  }
}

static uint32_t next_random(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 10; }

static void make_text(uint8_t *data, size_t size) {
  static const char *const words[] = {"the ",      "compiler ", "of ",    "loop ", "and ",   "a ",      "value ", "in ",
                                      "register ", "to ",       "block ", "is ",   "phi ",   "memory ", "store ", "load ",
                                      "branch ",   "with ",     "\n",     "for ",  "every ", "graph "};
  uint32_t state = 42;
  for (size_t at = 0; at < size;) {
    uint32_t a = next_random(&state) % 22, b = next_random(&state) % 22;
    const char *word = words[a < b ? a : b];
    for (; *word != 0 && at < size; word++) data[at++] = (uint8_t)*word;
  }
}

static void make_table(uint8_t *data, size_t size) {
  uint32_t state = 7, value = 1000;
  for (size_t at = 0; at + 8 <= size; at += 8) {
    value += next_random(&state) % 5;
    uint32_t fields[2] = {value, next_random(&state) % 100 < 90 ? 0 : value * 31};
    for (int i = 0; i < 8; i++) data[at + (size_t)i] = (uint8_t)(fields[i / 4] >> (8 * (i % 4)));
  }
  memset(data + size / 8 * 8, 0, size % 8);
}

static void make_noise(uint8_t *data, size_t size) {
  uint32_t state = 3;
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)next_random(&state);
}

static uint32_t checksum(const struct buffer *b) {
  uint32_t low = 1, high = 0;
  for (size_t i = 0; i < b->size; i++) {
    low = (low + b->bytes[i]) % 65521;
    high = (high + low) % 65521;
  }
  return high << 16 | low;
}

static void round_trip(const char *title, void (*make)(uint8_t *, size_t), size_t size) {
  uint8_t *data = malloc(size + 1);
  if (data == NULL) abort();
  make(data, size);
  struct buffer packed = {NULL, 0, 0}, unpacked = {NULL, 0, 0};
  struct statistics s = compress(data, size, &packed);
  int whole = decompress(&packed, &unpacked);
  int same = whole && unpacked.size == size && (size == 0 || memcmp(unpacked.bytes, data, size) == 0);
  printf("%-6s %zu -> %zu bytes (%08x), %zu matches up to %zu, %zu literals, %s", title, size, packed.size,
         checksum(&packed), s.matches, s.longest, s.literals, same ? "restored" : "DAMAGED");
  packed.size /= 2;
  unpacked.size = 0;
  printf(", half: %d\n", decompress(&packed, &unpacked));
  free(data);
  free(packed.bytes);
  free(unpacked.bytes);
}

int main(int argc, char **argv) {
  size_t size = 6000;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 100000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 1000000;
  round_trip("text", make_text, size);
  round_trip("table", make_table, size + 3);
  round_trip("noise", make_noise, size / 4);
  round_trip("empty", make_noise, 0);
  return 0;
}
