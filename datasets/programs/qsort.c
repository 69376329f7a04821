// qsort: quicksort of records with several orders given as comparison functions
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  char name[12];
  int32_t year;
  int32_t score;
  uint32_t id;
} record;

typedef int comparison(const record *, const record *);

enum { INSERTION_LIMIT = 12 };

static uint32_t seed = 2463534242u;
static unsigned long comparisons;

static uint32_t next_random(void) {
  seed = seed * 1664525u + 1013904223u;
  return seed >> 8;
}

static int by_id(const record *a, const record *b) { return (a->id > b->id) - (a->id < b->id); }

static int by_name(const record *a, const record *b) {
  int order = strcmp(a->name, b->name);
  return order != 0 ? order : by_id(a, b);
}

static int by_year(const record *a, const record *b) {
  if (a->year != b->year) return a->year < b->year ? -1 : 1;
  return by_name(a, b);
}

static int by_score_descending(const record *a, const record *b) {
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return by_id(a, b);
}

static int compare(const record *a, const record *b, comparison *order) {
  comparisons++;
  return order(a, b);
}

static void swap(record *a, record *b) {
  record kept = *a;
  *a = *b;
  *b = kept;
}

static void insertion_sort(record *first, record *end, comparison *order) {
  for (record *next = first + 1; next < end; next++) {
    record moving = *next;
    record *gap = next;
    while (gap > first && compare(&moving, gap - 1, order) < 0) {
      *gap = *(gap - 1);
      gap--;
    }
    *gap = moving;
  }
}

// Moves the median of the first, middle and last element to the front.
static void choose_pivot(record *first, record *last, comparison *order) {
  record *middle = first + (last - first) / 2;
  if (compare(middle, last, order) > 0) swap(middle, last);
  if (compare(first, last, order) > 0) swap(first, last);
  if (compare(middle, first, order) > 0) swap(middle, first);
}

static record *partition(record *first, record *end, comparison *order) {
  choose_pivot(first, end - 1, order);
  record *low = first, *high = end;
  for (;;) {
    do low++;
    while (low < end && compare(low, first, order) < 0);
    do high--;
    while (compare(high, first, order) > 0);
    if (low >= high) break;
    swap(low, high);
  }
  swap(first, high);
  return high;
}

// Recurses into the smaller part only, so the stack stays shallow on any input.
static void quicksort(record *first, record *end, comparison *order) {
  while (end - first > INSERTION_LIMIT) {
    record *pivot = partition(first, end, order);
    if (pivot - first < end - pivot) {
      quicksort(first, pivot, order);
      first = pivot + 1;
    } else {
      quicksort(pivot + 1, end, order);
      end = pivot;
    }
  }
  insertion_sort(first, end, order);
}

static void make_name(char *name) {
  static const char consonants[] = "bdfgklmnprstv", vowels[] = "aeiou";
  int length = 3 + (int)(next_random() % 7);
  for (int i = 0; i < length; i++) {
    if (i % 2 == 0)
      name[i] = consonants[next_random() % (sizeof consonants - 1)];
    else
      name[i] = vowels[next_random() % (sizeof vowels - 1)];
  }
  name[0] = (char)(name[0] - 'a' + 'A');
  memset(name + length, 0, 12 - (size_t)length);
}

static void make_records(record *records, size_t count) {
  for (size_t i = 0; i < count; i++) {
    make_name(records[i].name);
    records[i].year = 1900 + (int32_t)(next_random() % 120);
    records[i].score = (int32_t)(next_random() % 20001) - 10000;
    records[i].id = (uint32_t)i;
  }
}

static uint64_t order_checksum(const record *records, size_t count) {
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < count; i++) sum = (sum ^ records[i].id) * 1099511628211u;
  return sum;
}

static int is_sorted(const record *records, size_t count, comparison *order) {
  for (size_t i = 1; i < count; i++)
    if (order(&records[i - 1], &records[i]) >= 0) return 0;
  return 1;
}

static void report(const char *title, record *records, size_t count, comparison *order) {
  comparisons = 0;
  quicksort(records, records + count, order);
  const record *median = &records[count / 2];
  printf("%-6s %s, %lu comparisons, median %s %d %d, checksum %016lx\n", title,
         is_sorted(records, count, order) ? "sorted" : "NOT SORTED", comparisons, median->name, median->year,
         median->score, (unsigned long)order_checksum(records, count));
}

int main(int argc, char **argv) {
  size_t count = 1000;
  if (argc > 1 && strcmp(argv[1], "medium") == 0) count = 20000;
  if (argc > 1 && strcmp(argv[1], "large") == 0) count = 150000;
  record *records = malloc(count * sizeof *records);
  if (records == NULL) return 1;
  make_records(records, count);
  report("name", records, count, by_name);
  report("name", records, count, by_name);
  report("year", records, count, by_year);
  report("score", records, count, by_score_descending);
  report("id", records, count, by_id);
  free(records);
  return 0;
}
