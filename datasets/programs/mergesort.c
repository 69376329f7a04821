// mergesort: bottom-up and linked-list merge sort and radix sort, checked against each other
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item {
  uint32_t key;
  uint32_t position;
};

struct node {
  struct item item;
  struct node *next;
};

static uint64_t state = 88172645463325252u;

static uint32_t next_random(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}

static void merge(const struct item *left, const struct item *middle, const struct item *end, struct item *out) {
  const struct item *right = middle;
  while (left < middle && right < end) *out++ = right->key < left->key ? *right++ : *left++;
  while (left < middle) *out++ = *left++;
  while (right < end) *out++ = *right++;
}

static void bottom_up_sort(struct item *items, size_t count) {
  struct item *from = items, *to = malloc(count * sizeof *items);
  if (to == NULL) abort();
  struct item *scratch = to;
  for (size_t width = 1; width < count; width *= 2) {
    for (size_t start = 0; start < count; start += 2 * width) {
      size_t middle = start + width < count ? start + width : count;
      size_t end = start + 2 * width < count ? start + 2 * width : count;
      merge(from + start, from + middle, from + end, to + start);
    }
    struct item *swapped = from;
    from = to;
    to = swapped;
  }
  if (from != items) memcpy(items, from, count * sizeof *items);
  free(scratch);
}

static struct node *merge_lists(struct node *a, struct node *b) {
  struct node *first = NULL, **link = &first;
  while (a != NULL && b != NULL) {
    struct node **smaller = b->item.key < a->item.key ? &b : &a;
    *link = *smaller;
    link = &(*smaller)->next;
    *smaller = (*smaller)->next;
  }
  *link = a != NULL ? a : b;
  return first;
}

// Bin k holds a sorted list of 2^k nodes or none, as in a binary counter.
static struct node *list_sort(struct node *list) {
  struct node *bins[32] = {0};
  while (list != NULL) {
    struct node *carry = list;
    list = list->next;
    carry->next = NULL;
    int k = 0;
    for (; bins[k] != NULL; k++) {
      carry = merge_lists(bins[k], carry);
      bins[k] = NULL;
    }
    bins[k] = carry;
  }
  struct node *sorted = NULL;
  for (int k = 0; k < 32; k++) sorted = merge_lists(bins[k], sorted);
  return sorted;
}

static void radix_sort(struct item *items, size_t count) {
  struct item *scratch = malloc(count * sizeof *items);
  if (scratch == NULL) abort();
  struct item *from = items, *to = scratch;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    size_t starts[256] = {0}, position = 0;
    for (size_t i = 0; i < count; i++) starts[from[i].key >> shift & 255]++;
    for (size_t digit = 0; digit < 256; digit++) {
      size_t size = starts[digit];
      starts[digit] = position;
      position += size;
    }
    for (size_t i = 0; i < count; i++) to[starts[from[i].key >> shift & 255]++] = from[i];
    struct item *swapped = from;
    from = to;
    to = swapped;
  }
  free(scratch);
}

static struct node *list_of(const struct item *items, size_t count, struct node *nodes) {
  for (size_t i = 0; i < count; i++) {
    nodes[i].item = items[i];
    nodes[i].next = i + 1 < count ? &nodes[i + 1] : NULL;
  }
  return count > 0 ? nodes : NULL;
}

static const char *check(const struct item *items, size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (items[i - 1].key > items[i].key) return "NOT SORTED";
    if (items[i - 1].key == items[i].key && items[i - 1].position > items[i].position) return "NOT STABLE";
  }
  return "sorted and stable";
}

static uint64_t checksum(const struct item *items, size_t count) {
  uint64_t sum = count;
  for (size_t i = 0; i < count; i++) sum = (sum ^ items[i].key) * 0x9e3779b97f4a7c15u + items[i].position;
  return sum;
}

static void sort_three_ways(size_t count, uint32_t key_range) {
  struct item *input = malloc(count * sizeof *input), *merged = malloc(count * sizeof *merged);
  struct item *radixed = malloc(count * sizeof *radixed);
  struct node *nodes = malloc(count * sizeof *nodes);
  if (input == NULL || merged == NULL || radixed == NULL || nodes == NULL) abort();
  for (size_t i = 0; i < count; i++) {
    input[i].key = next_random() % key_range;
    input[i].position = (uint32_t)i;
  }
  memcpy(merged, input, count * sizeof *input);
  memcpy(radixed, input, count * sizeof *input);
  bottom_up_sort(merged, count);
  radix_sort(radixed, count);
  size_t listed = 0, differences = 0;
  for (struct node *n = list_sort(list_of(input, count, nodes)); n != NULL; n = n->next, listed++) {
    if (n->item.key != merged[listed].key || n->item.position != merged[listed].position) differences++;
  }
  if (memcmp(merged, radixed, count * sizeof *merged) != 0) differences++;
  printf("%zu keys below %u: %s, checksum %016lx, median %u, list %zu, differences %zu\n", count, key_range,
         check(merged, count), (unsigned long)checksum(merged, count), merged[count / 2].key, listed, differences);
  free(input);
  free(merged);
  free(radixed);
  free(nodes);
}

int main(int argc, char **argv) {
  size_t count = 1500;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) count = 25000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) count = 200000;
  sort_three_ways(count, 0x7fffffffu);
  sort_three_ways(count + 1, 1000);
  sort_three_ways(count / 3, 7);
  return 0;
}
