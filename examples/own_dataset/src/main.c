// Counts the words of texts, most frequent first: `words FILE…`, or a text on standard input.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "table.h"

static void count(FILE *text, struct table *table) {
  char word[64];
  size_t length = 0;
  for (int c; (c = getc(text)) != EOF;) {
    if (isalpha(c)) {
      if (length < sizeof word - 1) word[length++] = (char)tolower(c);
    } else if (length) {
      word[length] = '\0';
      table_add(table, word);
      length = 0;
    }
  }
  if (length) {
    word[length] = '\0';
    table_add(table, word);
  }
}

int main(int argc, char **argv) {
  struct table *table = table_new();
  if (argc == 1) count(stdin, table);
  for (int i = 1; i < argc; i++) {
    FILE *text = fopen(argv[i], "r");
    if (!text) {
      fprintf(stderr, "%s cannot be read\n", argv[i]);
      return 1;
    }
    count(text, table);
    fclose(text);
  }
  table_print(table, 10);
  table_free(table);
  return 0;
}
