#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

struct entry {
  char *word;
  unsigned count;
};

struct table {
  struct entry *entries;  // as many as a power of two, at most half of them in use
  size_t size, used;
};

static void *checked(void *memory) {
  if (!memory) {
    fputs("out of memory\n", stderr);
    exit(2);
  }
  return memory;
}

struct table *table_new(void) {
  struct table *table = checked(malloc(sizeof *table));
  table->size = 64;
  table->used = 0;
  table->entries = checked(calloc(table->size, sizeof *table->entries));
  return table;
}

static struct entry *place(const struct table *table, const char *word) {
  size_t at = hash(word) & (table->size - 1);
  while (table->entries[at].word && strcmp(table->entries[at].word, word)) at = (at + 1) & (table->size - 1);
  return &table->entries[at];
}

static void grow(struct table *table) {
  struct table larger = {checked(calloc(table->size * 2, sizeof *larger.entries)), table->size * 2, table->used};
  for (size_t i = 0; i < table->size; i++)
    if (table->entries[i].word) *place(&larger, table->entries[i].word) = table->entries[i];
  free(table->entries);
  *table = larger;
}

void table_add(struct table *table, const char *word) {
  struct entry *entry = place(table, word);
  if (entry->word) {
    entry->count++;
    return;
  }
  entry->word = checked(malloc(strlen(word) + 1));
  strcpy(entry->word, word);
  entry->count = 1;
  if (++table->used * 2 > table->size) grow(table);
}

static int by_count(const void *left, const void *right) {
  const struct entry *a = left, *b = right;
  if (a->count != b->count) return a->count < b->count ? 1 : -1;
  if (!a->word || !b->word) return !a->word - !b->word;
  return strcmp(a->word, b->word);
}

void table_print(const struct table *table, size_t most) {
  struct entry *sorted = checked(malloc(table->size * sizeof *sorted));
  memcpy(sorted, table->entries, table->size * sizeof *sorted);
  qsort(sorted, table->size, sizeof *sorted, by_count);
  for (size_t i = 0; i < most && i < table->used; i++) printf("%6u %s\n", sorted[i].count, sorted[i].word);
  free(sorted);
}

void table_free(struct table *table) {
  for (size_t i = 0; i < table->size; i++) free(table->entries[i].word);
  free(table->entries);
  free(table);
}
