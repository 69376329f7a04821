/* Memory, numbers from text, sorting, ending the program. */
#ifndef AIOCG_STDLIB_H
#define AIOCG_STDLIB_H
#include <stddef.h>
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 0x7fffffff
#ifdef __cplusplus
extern "C" {
#endif
void *malloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *calloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *realloc(void *block, size_t size) __attribute__((alloc_size(2)));
void *aligned_alloc(size_t alignment, size_t size) __attribute__((malloc, alloc_align(1), alloc_size(2)));
void free(void *block);

int atoi(const char *text);
long atol(const char *text);
long long atoll(const char *text);
double atof(const char *text);
long strtol(const char *text, char **end, int base);
long long strtoll(const char *text, char **end, int base);
unsigned long strtoul(const char *text, char **end, int base);
unsigned long long strtoull(const char *text, char **end, int base);
double strtod(const char *text, char **end);
float strtof(const char *text, char **end);

int abs(int value);
long labs(long value);
long long llabs(long long value);

void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
void *bsearch(const void *key, const void *base, size_t count, size_t size,
              int (*compare)(const void *, const void *));
int rand(void);
void srand(unsigned seed);

__attribute__((noreturn)) void exit(int status);
__attribute__((noreturn)) void _Exit(int status);
__attribute__((noreturn)) void abort(void);
int atexit(void (*function)(void));
#ifdef __cplusplus
}
#endif
#endif
