// bwt: block sorting (Burrows-Wheeler), move to front and an adaptive range coder, and all of it back
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_BITS = 11, MODEL_ONE = 1 << MODEL_BITS, LEARNING_SHIFT = 5 };

static const uint32_t range_floor = 1u << 24;

static void *allocate(size_t count, size_t size) {
  void *block = calloc(count > 0 ? count : 1, size);
  if (block == NULL) abort();
  return block;
}

/* ---- Sorting the rotations: prefix doubling, each pass two counting sorts. ---- */

static void count_sort(const uint32_t *items, const uint32_t *keys, uint32_t *out, size_t size, uint32_t *counts,
                       uint32_t classes) {
  memset(counts, 0, classes * sizeof *counts);
  for (size_t i = 0; i < size; i++) counts[keys[items[i]]]++;
  uint32_t start = 0;
  for (uint32_t k = 0; k < classes; k++) {
    uint32_t count = counts[k];
    counts[k] = start;
    start += count;
  }
  for (size_t i = 0; i < size; i++) out[counts[keys[items[i]]]++] = items[i];
}

/* order[k] is where the k-th smallest rotation begins. Equal rotations keep the order of their positions. */
static void sort_rotations(const uint8_t *data, size_t size, uint32_t *order) {
  size_t limit = size > 256 ? size : 256;
  uint32_t *rank = allocate(size, sizeof *rank), *new_rank = allocate(size, sizeof *rank);
  uint32_t *shifted = allocate(size, sizeof *rank), *counts = allocate(limit, sizeof *counts);
  for (size_t i = 0; i < size; i++) {
    rank[i] = data[i];
    shifted[i] = (uint32_t)i;
  }
  count_sort(shifted, rank, order, size, counts, 256);
  uint32_t classes = 256;
  for (size_t length = 0; length < size && classes < size; length = length == 0 ? 1 : 2 * length) {
    if (length > 0) {
      /* Sorted by their second half already; sorting stably by the first half completes it. */
      for (size_t i = 0; i < size; i++) shifted[i] = (uint32_t)((order[i] + size - length) % size);
      count_sort(shifted, rank, order, size, counts, classes);
    }
    uint32_t current = 0;
    new_rank[order[0]] = 0;
    for (size_t i = 1; i < size; i++) {
      uint32_t a = order[i - 1], b = order[i];
      int same = rank[a] == rank[b] && (length == 0 || rank[(a + length) % size] == rank[(b + length) % size]);
      if (!same) current++;
      new_rank[b] = current;
    }
    memcpy(rank, new_rank, size * sizeof *rank);
    classes = current + 1;
  }
  free(rank);
  free(new_rank);
  free(shifted);
  free(counts);
}

/* Writes the last column of the sorted rotations; returns the row of the original. */
static size_t transform(const uint8_t *data, size_t size, uint8_t *column) {
  uint32_t *order = allocate(size, sizeof *order);
  size_t row = 0;
  sort_rotations(data, size, order);
  for (size_t i = 0; i < size; i++) {
    if (order[i] == 0) row = i;
    column[i] = data[(order[i] + size - 1) % size];
  }
  free(order);
  return row;
}

static void untransform(const uint8_t *column, size_t size, size_t row, uint8_t *data) {
  uint32_t starts[256] = {0}, *previous = allocate(size, sizeof *previous), start = 0;
  for (size_t i = 0; i < size; i++) starts[column[i]]++;
  for (int byte = 0; byte < 256; byte++) {
    uint32_t count = starts[byte];
    starts[byte] = start;
    start += count;
  }
  for (size_t i = 0; i < size; i++) previous[i] = starts[column[i]]++;
  for (size_t i = size; i-- > 0;) {
    data[i] = column[row];
    row = previous[row];
  }
  free(previous);
}

/* ---- Move to front. ---- */

static void start_list(uint8_t list[256]) {
  for (int i = 0; i < 256; i++) list[i] = (uint8_t)i;
}

static void move_to_front(uint8_t *data, size_t size) {
  uint8_t list[256];
  start_list(list);
  for (size_t i = 0; i < size; i++) {
    uint8_t byte = data[i];
    int at = 0;
    while (list[at] != byte) at++;
    memmove(list + 1, list, (size_t)at);
    list[0] = byte;
    data[i] = (uint8_t)at;
  }
}

static void move_back(uint8_t *data, size_t size) {
  uint8_t list[256];
  start_list(list);
  for (size_t i = 0; i < size; i++) {
    int at = data[i];
    uint8_t byte = list[at];
    memmove(list + 1, list, (size_t)at);
    list[0] = byte;
    data[i] = byte;
  }
}

/* ---- Range coder over bits, each with an adaptive probability. ---- */

struct encoder {
  uint8_t *out;
  size_t size;
  uint64_t low;
  uint32_t range;
  uint8_t held;       /* the last byte, which a carry may still change */
  size_t held_count;  /* it and the 0xff bytes after it; 0 only before the first */
};

struct decoder {
  const uint8_t *in;
  size_t size, at;
  uint32_t range, code;
};

struct models {
  uint16_t zero[3]; /* is the symbol zero, after 0, 1, or 2 and more zeros in a row? */
  uint16_t tree[256];
};

static void start_models(struct models *m) {
  for (int i = 0; i < 3; i++) m->zero[i] = MODEL_ONE / 2;
  for (int i = 0; i < 256; i++) m->tree[i] = MODEL_ONE / 2;
}

static void learn(uint16_t *probability_of_0, int bit) {
  if (bit)
    *probability_of_0 = (uint16_t)(*probability_of_0 - (*probability_of_0 >> LEARNING_SHIFT));
  else
    *probability_of_0 = (uint16_t)(*probability_of_0 + ((MODEL_ONE - *probability_of_0) >> LEARNING_SHIFT));
}

static void shift_out(struct encoder *e) {
  if (e->low < 0xff000000u || e->low > 0xffffffffu) {
    uint8_t carry = (uint8_t)(e->low >> 32);
    for (; e->held_count > 0; e->held_count--) {
      e->out[e->size++] = (uint8_t)(e->held + carry);
      e->held = 0xff;
    }
    e->held = (uint8_t)(e->low >> 24);
  }
  e->held_count++;
  e->low = (e->low & 0x00ffffffu) << 8;
}

static void encode_bit(struct encoder *e, uint16_t *probability, int bit) {
  uint32_t bound = (e->range >> MODEL_BITS) * *probability;
  if (bit) {
    e->low += bound;
    e->range -= bound;
  } else {
    e->range = bound;
  }
  learn(probability, bit);
  for (; e->range < range_floor; e->range <<= 8) shift_out(e);
}

static uint8_t next_byte(struct decoder *d) { return d->at < d->size ? d->in[d->at++] : 0; }

static int decode_bit(struct decoder *d, uint16_t *probability) {
  uint32_t bound = (d->range >> MODEL_BITS) * *probability;
  int bit = d->code >= bound;
  if (bit) {
    d->code -= bound;
    d->range -= bound;
  } else {
    d->range = bound;
  }
  learn(probability, bit);
  for (; d->range < range_floor; d->range <<= 8) d->code = d->code << 8 | next_byte(d);
  return bit;
}

static int zero_context(size_t zeros) { return zeros < 2 ? (int)zeros : 2; }

static size_t encode(const uint8_t *data, size_t size, uint8_t *out) {
  struct encoder e = {.out = out, .range = 0xffffffffu};
  struct models m;
  size_t zeros = 0;
  start_models(&m);
  for (size_t i = 0; i < size; i++) {
    encode_bit(&e, &m.zero[zero_context(zeros)], data[i] != 0);
    zeros = data[i] == 0 ? zeros + 1 : 0;
    if (data[i] == 0) continue;
    unsigned node = 1;
    for (int bit = 7; bit >= 0; bit--) {
      int value = data[i] >> bit & 1;
      encode_bit(&e, &m.tree[node], value);
      node = 2 * node + (unsigned)value;
    }
  }
  for (int i = 0; i < 5; i++) shift_out(&e);
  return e.size;
}

static void decode(const uint8_t *in, size_t in_size, uint8_t *data, size_t size) {
  struct decoder d = {in, in_size, 0, 0xffffffffu, 0};
  struct models m;
  size_t zeros = 0;
  start_models(&m);
  for (int i = 0; i < 4; i++) d.code = d.code << 8 | next_byte(&d);
  for (size_t i = 0; i < size; i++) {
    unsigned node = 1;
    if (decode_bit(&d, &m.zero[zero_context(zeros)]) == 0) {
      zeros++;
      data[i] = 0;
      continue;
    }
    zeros = 0;
    while (node < 256) node = 2 * node + (unsigned)decode_bit(&d, &m.tree[node]);
    data[i] = (uint8_t)node;
  }
}

/* ---- Inputs and the round trip. ---- */

static uint32_t next_random(uint32_t *state) { return (*state = *state * 69069u + 362437u) >> 12; }

/* Sentences from a small grammar. */
static size_t sentence(uint32_t *state, char *out, size_t room) {
  static const char *const subjects[] = {"the old pass", "a basic block", "one small loop", "the linker", "this phi node"};
  static const char *const verbs[] = {"moves", "splits", "visits", "folds", "remembers", "never sees"};
  static const char *const objects[] = {"every load", "its only user", "a dead store", "the back edge", "two constants"};
  const char *subject = subjects[next_random(state) % 5], *verb = verbs[next_random(state) % 6];
  const char *object = objects[next_random(state) % 5], *end = next_random(state) % 4 == 0 ? ".\n" : ", and ";
  return (size_t)snprintf(out, room, "%s %s %s%s", subject, verb, object, end);
}

static void make_prose(uint8_t *data, size_t size) {
  uint32_t state = 5;
  char line[80];
  for (size_t at = 0; at < size;) {
    size_t length = sentence(&state, line, sizeof line);
    if (length > size - at) length = size - at;
    memcpy(data + at, line, length);
    at += length;
  }
}

static void make_repeats(uint8_t *data, size_t size) {
  for (size_t i = 0; i < size; i++) data[i] = "abracadabra"[i % 11];
}

static void make_noise(uint8_t *data, size_t size) {
  uint32_t state = 99;
  for (size_t i = 0; i < size; i++) data[i] = (uint8_t)next_random(&state);
}

static void round_trip(const char *title, void (*make)(uint8_t *, size_t), size_t size) {
  uint8_t *data = allocate(size, 1), *column = allocate(size, 1), *packed = allocate(size * 2 + 16, 1);
  uint8_t *restored = allocate(size, 1);
  make(data, size);
  size_t row = transform(data, size, column), runs = 0;
  for (size_t i = 1; i < size; i++) runs += column[i] != column[i - 1];
  move_to_front(column, size);
  size_t packed_size = encode(column, size, packed);
  memset(column, 0, size);
  decode(packed, packed_size, column, size);
  move_back(column, size);
  untransform(column, size, row, restored);
  uint32_t sum = 0;
  for (size_t i = 0; i < packed_size; i++) sum = sum * 131 + packed[i];
  printf("%-8s %zu -> %zu bytes (%08x), row %zu, %zu runs, %s\n", title, size, packed_size, sum, row, runs,
         memcmp(data, restored, size) == 0 ? "restored" : "DAMAGED");
  free(data);
  free(column);
  free(packed);
  free(restored);
}

int main(int argc, char **argv) {
  size_t size = 2500;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 40000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 250000;
  round_trip("prose", make_prose, size);
  round_trip("repeats", make_repeats, size / 2);
  round_trip("noise", make_noise, size / 2);
  return 0;
}
