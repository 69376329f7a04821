// Where words are looked for first.
#ifndef HASH_H
#define HASH_H

unsigned hash(const char *word);

#endif
