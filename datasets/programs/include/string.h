/* Memory blocks and NUL-terminated text. */
#ifndef AIOCG_STRING_H
#define AIOCG_STRING_H
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *to, const void *from, size_t size);
void *mempcpy(void *to, const void *from, size_t size);
void *memccpy(void *to, const void *from, int stop, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int byte, size_t size);
int memcmp(const void *a, const void *b, size_t size);
int bcmp(const void *a, const void *b, size_t size);
void *memchr(const void *block, int byte, size_t size);
void *memrchr(const void *block, int byte, size_t size);
void *memmem(const void *block, size_t size, const void *needle, size_t needle_size);
size_t strlen(const char *text);
size_t strnlen(const char *text, size_t limit);
char *strcpy(char *to, const char *from);
char *strncpy(char *to, const char *from, size_t size);
char *stpcpy(char *to, const char *from);
char *stpncpy(char *to, const char *from, size_t size);
char *strcat(char *to, const char *from);
char *strncat(char *to, const char *from, size_t size);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t size);
int strcasecmp(const char *a, const char *b);
char *strchr(const char *text, int c);
char *strchrnul(const char *text, int c);
char *strrchr(const char *text, int c);
size_t strspn(const char *text, const char *accept);
size_t strcspn(const char *text, const char *reject);
char *strpbrk(const char *text, const char *accept);
char *strstr(const char *text, const char *needle);
char *strtok(char *text, const char *separators);
char *strtok_r(char *text, const char *separators, char **rest);
char *strdup(const char *text);
char *strndup(const char *text, size_t limit);
#ifdef __cplusplus
}
#endif
#endif
