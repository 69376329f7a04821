// A table of words and how often each was added.
#ifndef TABLE_H
#define TABLE_H
#include <stddef.h>

struct table;

struct table *table_new(void);
void table_add(struct table *table, const char *word);
void table_print(const struct table *table, size_t most);
void table_free(struct table *table);

#endif
