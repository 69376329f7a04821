/* The mem* functions: sixteen bytes at a time, with overlapping ends instead of byte loops. */
#include <stdint.h>
#include <string.h>

typedef uint16_t unaligned16 __attribute__((may_alias, aligned(1)));
typedef uint32_t unaligned32 __attribute__((may_alias, aligned(1)));
typedef uint64_t unaligned64 __attribute__((may_alias, aligned(1)));
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef bytes16 unaligned128 __attribute__((may_alias, aligned(1)));

#define AT(type, pointer) (*(type *)(pointer))

/* Up to 16 bytes: all loads come before the stores, so the blocks may overlap. */
static inline void move_few(char *to, const char *from, size_t size) {
  if (size >= 8) {
    uint64_t first = AT(unaligned64, from), last = AT(unaligned64, from + size - 8);
    AT(unaligned64, to) = first;
    AT(unaligned64, to + size - 8) = last;
  } else if (size >= 4) {
    uint32_t first = AT(unaligned32, from), last = AT(unaligned32, from + size - 4);
    AT(unaligned32, to) = first;
    AT(unaligned32, to + size - 4) = last;
  } else if (size >= 2) {
    uint16_t first = AT(unaligned16, from), last = AT(unaligned16, from + size - 2);
    AT(unaligned16, to) = first;
    AT(unaligned16, to + size - 2) = last;
  } else if (size == 1) {
    *to = *from;
  }
}

static void move_forward(char *to, const char *from, size_t size) {
  bytes16 last = AT(unaligned128, from + size - 16);
  for (size_t i = 0; i + 16 < size; i += 16) AT(unaligned128, to + i) = AT(unaligned128, from + i);
  AT(unaligned128, to + size - 16) = last;
}

static void move_backward(char *to, const char *from, size_t size) {
  bytes16 first = AT(unaligned128, from);
  for (size_t i = size; i > 16; i -= 16) AT(unaligned128, to + i - 16) = AT(unaligned128, from + i - 16);
  AT(unaligned128, to) = first;
}

void *memcpy(void *to, const void *from, size_t size) {
  if (size <= 16)
    move_few(to, from, size);
  else
    move_forward(to, from, size);
  return to;
}

void *memmove(void *to, const void *from, size_t size) {
  if (size <= 16)
    move_few(to, from, size);
  else if ((uintptr_t)to - (uintptr_t)from >= size)
    move_forward(to, from, size);
  else
    move_backward(to, from, size);
  return to;
}

void *mempcpy(void *to, const void *from, size_t size) { return (char *)memcpy(to, from, size) + size; }

void *memset(void *to, int byte, size_t size) {
  char *at = to;
  uint64_t eight = 0x0101010101010101u * (uint8_t)byte;
  if (size >= 16) {
    for (size_t i = 0; i + 16 < size; i += 16) {
      AT(unaligned64, at + i) = eight;
      AT(unaligned64, at + i + 8) = eight;
    }
    AT(unaligned64, at + size - 16) = eight;
    AT(unaligned64, at + size - 8) = eight;
  } else if (size >= 8) {
    AT(unaligned64, at) = eight;
    AT(unaligned64, at + size - 8) = eight;
  } else if (size >= 4) {
    AT(unaligned32, at) = (uint32_t)eight;
    AT(unaligned32, at + size - 4) = (uint32_t)eight;
  } else {
    for (size_t i = 0; i < size; i++) at[i] = (char)byte;
  }
  return to;
}

int memcmp(const void *a, const void *b, size_t size) {
  const unsigned char *p = a, *q = b;
  while (size >= 8 && AT(unaligned64, p) == AT(unaligned64, q)) p += 8, q += 8, size -= 8;
  for (; size > 0; p++, q++, size--)
    if (*p != *q) return *p - *q;
  return 0;
}

int bcmp(const void *a, const void *b, size_t size) { return memcmp(a, b, size); }

void *memchr(const void *block, int byte, size_t size) {
  for (const unsigned char *p = block; size > 0; p++, size--)
    if (*p == (unsigned char)byte) return (void *)p;
  return NULL;
}

void *memrchr(const void *block, int byte, size_t size) {
  const unsigned char *p = block;
  while (size-- > 0)
    if (p[size] == (unsigned char)byte) return (void *)(p + size);
  return NULL;
}

void *memccpy(void *to, const void *from, int stop, size_t size) {
  const char *end = memchr(from, stop, size);
  if (end == NULL) {
    memcpy(to, from, size);
    return NULL;
  }
  return mempcpy(to, from, (size_t)(end + 1 - (const char *)from));
}

void *memmem(const void *block, size_t size, const void *needle, size_t needle_size) {
  const char *at = block;
  for (; size >= needle_size; at++, size--)
    if (memcmp(at, needle, needle_size) == 0) return (void *)at;
  return NULL;
}
