#include "hash.h"

unsigned hash(const char *word) {
  unsigned value = 2166136261u;
  for (; *word; word++) value = (value ^ (unsigned char)*word) * 16777619u;
  return value ^ value >> 15;
}
