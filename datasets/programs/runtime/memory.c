/* malloc: free lists by size class over large mapped areas; big blocks are mapped on their own.
 *
 * Every block is preceded by a 16-byte header with its capacity. Capacities are multiples of 16 up to
 * SMALL_LIMIT, then four steps in each doubling up to LARGE_LIMIT. A freed block goes on the list of its
 * class and is the next one handed out from it; blocks are never split or merged. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"

enum {
  GRAIN = 16,
  SMALL_LIMIT = 1024,
  SMALL_CLASSES = SMALL_LIMIT / GRAIN,
  LARGE_LIMIT = 1 << 18,
  CLASSES = SMALL_CLASSES + 4 * 8,
  AREA = 1 << 20,
  PAGE = 4096,
};

struct header {
  size_t capacity;
  void *aligned_from; /* for a block moved up by aligned_alloc: the block that malloc returned */
};

struct free_block {
  struct free_block *next;
};

static struct free_block *free_lists[CLASSES];
static char *area;
static size_t area_left;

static struct header *header_of(void *block) { return (struct header *)block - 1; }

/* The class of a request and, through `capacity`, the size of that class's blocks. */
static int class_of(size_t size, size_t *capacity) {
  if (size <= SMALL_LIMIT) {
    int index = size == 0 ? 0 : (int)((size - 1) / GRAIN);
    *capacity = (size_t)(index + 1) * GRAIN;
    return index;
  }
  int doubling = 63 - __builtin_clzl(size - 1);
  size_t step = (size_t)1 << (doubling - 2);
  size_t quarter = (size - 1 - ((size_t)1 << doubling)) / step;
  *capacity = ((size_t)1 << doubling) + (quarter + 1) * step;
  return SMALL_CLASSES + (doubling - 10) * 4 + (int)quarter;
}

static void *carve(size_t capacity) {
  size_t total = capacity + sizeof(struct header);
  if (total > area_left) {
    char *fresh = aiocg_map(AREA);
    if (fresh == NULL) return NULL;
    area = fresh;
    area_left = AREA;
  }
  struct header *header = (struct header *)area;
  area += total;
  area_left -= total;
  header->capacity = capacity;
  header->aligned_from = NULL;
  return header + 1;
}

static void *map_large(size_t size) {
  if (size > SIZE_MAX / 2) return NULL;
  size_t total = (size + sizeof(struct header) + PAGE - 1) & ~(size_t)(PAGE - 1);
  struct header *header = aiocg_map(total);
  if (header == NULL) return NULL;
  header->capacity = total - sizeof(struct header);
  return header + 1;
}

void *malloc(size_t size) {
  if (size > LARGE_LIMIT) return map_large(size);
  size_t capacity;
  int index = class_of(size, &capacity);
  struct free_block *block = free_lists[index];
  if (block == NULL) return carve(capacity);
  free_lists[index] = block->next;
  return block;
}

void free(void *block) {
  if (block == NULL) return;
  struct header *header = header_of(block);
  if (header->aligned_from != NULL) {
    free(header->aligned_from);
  } else if (header->capacity > LARGE_LIMIT) {
    aiocg_unmap(header, header->capacity + sizeof *header);
  } else {
    size_t capacity;
    int index = class_of(header->capacity, &capacity);
    struct free_block *freed = block;
    freed->next = free_lists[index];
    free_lists[index] = freed;
  }
}

void *calloc(size_t count, size_t size) {
  size_t total;
  if (__builtin_mul_overflow(count, size, &total)) return NULL;
  void *block = malloc(total);
  if (block != NULL && total <= LARGE_LIMIT) memset(block, 0, total); /* mapped pages are zero already */
  return block;
}

void *realloc(void *block, size_t size) {
  if (block == NULL) return malloc(size);
  size_t capacity = header_of(block)->capacity;
  if (size <= capacity && size >= capacity / 4) return block;
  void *moved = malloc(size);
  if (moved == NULL) return NULL;
  memcpy(moved, block, size < capacity ? size : capacity);
  free(block);
  return moved;
}

void *aligned_alloc(size_t alignment, size_t size) {
  if (alignment <= GRAIN) return malloc(size);
  if (size > SIZE_MAX - alignment - sizeof(struct header)) return NULL;
  char *block = malloc(size + alignment + sizeof(struct header));
  if (block == NULL) return NULL;
  uintptr_t lowest = (uintptr_t)block + sizeof(struct header);
  char *aligned = block + (((lowest + alignment - 1) & ~(uintptr_t)(alignment - 1)) - (uintptr_t)block);
  struct header *header = header_of(aligned);
  header->capacity = size;
  header->aligned_from = block;
  return aligned;
}
