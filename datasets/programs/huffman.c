// huffman: canonical prefix codes built with a heap, encoding, and decoding by table
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYMBOLS = 256, NODES = 2 * SYMBOLS - 1, MAX_LENGTH = 32, TABLE_BITS = 9 };

struct code {
  uint32_t bits;
  int length; /* 0: the symbol does not occur */
};

struct tree_node {
  uint64_t weight;
  int left, right; /* -1 for a leaf */
};

struct heap {
  int items[SYMBOLS];
  int count;
};

struct bit_writer {
  uint8_t *bytes;
  size_t size;
  uint64_t pending;
  int pending_bits;
};

struct bit_reader {
  const uint8_t *bytes;
  size_t size, at;
  uint64_t window;
  int available;
};

struct decoder {
  uint16_t table[1 << TABLE_BITS]; /* symbol << 4 | length, or 0 for longer codes */
  uint32_t first_code[MAX_LENGTH + 2], first_index[MAX_LENGTH + 2];
  uint8_t symbols[SYMBOLS];
};

static struct tree_node nodes[NODES];

/* Equal weights are ordered by number, so that the tree does not depend on the heap's moves. */
static int lighter(int a, int b) {
  if (nodes[a].weight != nodes[b].weight) return nodes[a].weight < nodes[b].weight;
  return a < b;
}

static void heap_push(struct heap *heap, int node) {
  int at = heap->count++;
  while (at > 0 && lighter(node, heap->items[(at - 1) / 2])) {
    heap->items[at] = heap->items[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap->items[at] = node;
}

static int heap_pop(struct heap *heap) {
  int top = heap->items[0], last = heap->items[--heap->count], at = 0;
  for (int child; (child = 2 * at + 1) < heap->count; at = child) {
    if (child + 1 < heap->count && lighter(heap->items[child + 1], heap->items[child])) child++;
    if (!lighter(heap->items[child], last)) break;
    heap->items[at] = heap->items[child];
  }
  heap->items[at] = last;
  return top;
}

static void measure(int node, int depth, struct code *codes) {
  if (nodes[node].left < 0) {
    codes[node].length = depth > 0 ? depth : 1;
    return;
  }
  measure(nodes[node].left, depth + 1, codes);
  measure(nodes[node].right, depth + 1, codes);
}

static void code_lengths(const uint64_t *frequencies, struct code *codes) {
  struct heap heap = {.count = 0};
  memset(codes, 0, SYMBOLS * sizeof *codes);
  for (int i = 0; i < SYMBOLS; i++) {
    nodes[i] = (struct tree_node){frequencies[i], -1, -1};
    if (frequencies[i] > 0) heap_push(&heap, i);
  }
  int next = SYMBOLS;
  while (heap.count > 1) {
    int left = heap_pop(&heap), right = heap_pop(&heap);
    nodes[next] = (struct tree_node){nodes[left].weight + nodes[right].weight, left, right};
    heap_push(&heap, next++);
  }
  if (heap.count == 1) measure(heap_pop(&heap), 0, codes);
}

/* Codes of one length are consecutive numbers in the order of their symbols. */
static void assign_codes(struct code *codes) {
  uint32_t next = 0;
  for (int length = 1; length <= MAX_LENGTH; length++) {
    next <<= 1;
    for (int i = 0; i < SYMBOLS; i++)
      if (codes[i].length == length) codes[i].bits = next++;
  }
}

static void write_bits(struct bit_writer *w, uint32_t bits, int count) {
  w->pending = w->pending << count | bits;
  w->pending_bits += count;
  while (w->pending_bits >= 8) {
    w->pending_bits -= 8;
    w->bytes[w->size++] = (uint8_t)(w->pending >> w->pending_bits);
  }
}

static void finish_bits(struct bit_writer *w) {
  if (w->pending_bits > 0) write_bits(w, 0, 8 - w->pending_bits);
}

static void refill(struct bit_reader *r) {
  while (r->available <= 56) {
    uint8_t byte = r->at < r->size ? r->bytes[r->at] : 0;
    r->at++;
    r->window |= (uint64_t)byte << (56 - r->available);
    r->available += 8;
  }
}

static uint32_t peek_bits(const struct bit_reader *r, int count) { return (uint32_t)(r->window >> (64 - count)); }

static void skip_bits(struct bit_reader *r, int count) {
  r->window <<= count;
  r->available -= count;
}

static void make_decoder(struct decoder *d, const struct code *codes) {
  memset(d, 0, sizeof *d);
  uint32_t index = 0, next = 0;
  for (int length = 1; length <= MAX_LENGTH; length++) {
    next <<= 1;
    d->first_code[length] = next;
    d->first_index[length] = index;
    for (int i = 0; i < SYMBOLS; i++) {
      if (codes[i].length != length) continue;
      d->symbols[index++] = (uint8_t)i;
      if (length <= TABLE_BITS) {
        int spare = TABLE_BITS - length;
        for (uint32_t j = 0; j < 1u << spare; j++) d->table[next << spare | j] = (uint16_t)(i << 4 | length);
      }
      next++;
    }
  }
  d->first_index[MAX_LENGTH + 1] = index;
}

static uint8_t decode_symbol(const struct decoder *d, struct bit_reader *r) {
  refill(r);
  uint16_t entry = d->table[peek_bits(r, TABLE_BITS)];
  if (entry != 0) {
    skip_bits(r, entry & 15);
    return (uint8_t)(entry >> 4);
  }
  for (int length = TABLE_BITS + 1; length <= MAX_LENGTH; length++) {
    uint32_t offset = peek_bits(r, length) - d->first_code[length];
    if (offset < d->first_index[length + 1] - d->first_index[length]) {
      skip_bits(r, length);
      return d->symbols[d->first_index[length] + offset];
    }
  }
  return 0;
}

/* Six bits of length for each symbol, then the codes. */
static size_t encode(const uint8_t *data, size_t size, struct code *codes, uint8_t *out) {
  uint64_t frequencies[SYMBOLS] = {0};
  for (size_t i = 0; i < size; i++) frequencies[data[i]]++;
  code_lengths(frequencies, codes);
  assign_codes(codes);
  struct bit_writer w = {out, 0, 0, 0};
  for (int i = 0; i < SYMBOLS; i++) write_bits(&w, (uint32_t)codes[i].length, 6);
  for (size_t i = 0; i < size; i++) write_bits(&w, codes[data[i]].bits, codes[data[i]].length);
  finish_bits(&w);
  return w.size;
}

static void decode(const uint8_t *packed, size_t packed_size, uint8_t *data, size_t size) {
  struct bit_reader r = {packed, packed_size, 0, 0, 0};
  struct code codes[SYMBOLS] = {{0, 0}};
  for (int i = 0; i < SYMBOLS; i++) {
    refill(&r);
    codes[i].length = (int)peek_bits(&r, 6);
    skip_bits(&r, 6);
  }
  struct decoder decoder;
  make_decoder(&decoder, codes);
  for (size_t i = 0; i < size; i++) data[i] = decode_symbol(&decoder, &r);
}

static uint32_t next_random(uint32_t *state) { return (*state = *state * 1103515245u + 12345u) >> 8; }

static uint8_t letter(uint32_t *state) {
  static const char alphabet[] = "  eetaoinshrdlucmfwypvbgkjqxz,.\n";
  uint32_t a = next_random(state) % 32, b = next_random(state) % 32, c = next_random(state) % 32;
  uint32_t least = a < b ? a : b;
  return (uint8_t)alphabet[least < c ? least : c];
}

/* A geometric distribution: code lengths from one bit to the longest. */
static uint8_t skewed(uint32_t *state) {
  uint32_t random = next_random(state) & 0xfffff;
  uint8_t value = 0;
  for (; random & 1; random >>= 1) value++;
  return value;
}

static uint8_t uniform(uint32_t *state) { return (uint8_t)next_random(state); }

static uint8_t constant(uint32_t *state) {
  (void)state;
  return 'x';
}

static void round_trip(const char *title, uint8_t (*source)(uint32_t *), size_t size) {
  uint8_t *data = malloc(size), *restored = malloc(size), *packed = malloc(size * 4 + 400);
  if (data == NULL || restored == NULL || packed == NULL) abort();
  uint32_t state = 20240229u, sum = 0;
  for (size_t i = 0; i < size; i++) data[i] = source(&state);
  struct code codes[SYMBOLS];
  size_t packed_size = encode(data, size, codes, packed);
  decode(packed, packed_size, restored, size);
  int used = 0, shortest = MAX_LENGTH, longest = 0;
  for (int i = 0; i < SYMBOLS; i++) {
    if (codes[i].length == 0) continue;
    used++;
    if (codes[i].length < shortest) shortest = codes[i].length;
    if (codes[i].length > longest) longest = codes[i].length;
  }
  for (size_t i = 0; i < packed_size; i++) sum = sum * 31 + packed[i];
  printf("%-8s %zu -> %zu bytes (%08x), %d codes of %d to %d bits, %s\n", title, size, packed_size, sum, used,
         shortest, longest, memcmp(data, restored, size) == 0 ? "restored" : "DAMAGED");
  free(data);
  free(restored);
  free(packed);
}

int main(int argc, char **argv) {
  size_t size = 10000;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) size = 200000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) size = 1500000;
  round_trip("letters", letter, size);
  round_trip("skewed", skewed, size);
  round_trip("uniform", uniform, size);
  round_trip("constant", constant, size);
  return 0;
}
