/* The str* functions and the character classes of the "C" locale. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

size_t strlen(const char *text) {
  const char *at = text;
  for (; (uintptr_t)at % 8 != 0; at++)
    if (*at == 0) return (size_t)(at - text);
  /* An aligned word never crosses a page, so reading past the end of the text inside one is harmless. */
  typedef uint64_t word __attribute__((may_alias));
  for (const word *w = (const word *)at;; w++)
    if (((*w - 0x0101010101010101u) & ~*w & 0x8080808080808080u) != 0) {
      for (at = (const char *)w; *at != 0;) at++;
      return (size_t)(at - text);
    }
}

size_t strnlen(const char *text, size_t limit) {
  const char *end = memchr(text, 0, limit);
  return end == NULL ? limit : (size_t)(end - text);
}

char *stpcpy(char *to, const char *from) {
  size_t length = strlen(from);
  memcpy(to, from, length + 1);
  return to + length;
}

char *strcpy(char *to, const char *from) {
  stpcpy(to, from);
  return to;
}

char *stpncpy(char *to, const char *from, size_t size) {
  size_t length = strnlen(from, size);
  memcpy(to, from, length);
  memset(to + length, 0, size - length);
  return to + length;
}

char *strncpy(char *to, const char *from, size_t size) {
  stpncpy(to, from, size);
  return to;
}

char *strcat(char *to, const char *from) {
  strcpy(to + strlen(to), from);
  return to;
}

char *strncat(char *to, const char *from, size_t size) {
  char *end = to + strlen(to);
  size_t length = strnlen(from, size);
  memcpy(end, from, length);
  end[length] = 0;
  return to;
}

int strcmp(const char *a, const char *b) {
  while (*a != 0 && *a == *b) a++, b++;
  return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t size) {
  for (; size > 0; a++, b++, size--) {
    if (*a != *b) return (unsigned char)*a - (unsigned char)*b;
    if (*a == 0) break;
  }
  return 0;
}

int strcasecmp(const char *a, const char *b) {
  while (*a != 0 && tolower((unsigned char)*a) == tolower((unsigned char)*b)) a++, b++;
  return tolower((unsigned char)*a) - tolower((unsigned char)*b);
}

char *strchrnul(const char *text, int c) {
  while (*text != 0 && *text != (char)c) text++;
  return (char *)text;
}

char *strchr(const char *text, int c) {
  char *found = strchrnul(text, c);
  return *found == (char)c ? found : NULL;
}

char *strrchr(const char *text, int c) { return memrchr(text, c, strlen(text) + 1); }

size_t strspn(const char *text, const char *accept) {
  size_t length = 0;
  while (text[length] != 0 && strchr(accept, text[length]) != NULL) length++;
  return length;
}

size_t strcspn(const char *text, const char *reject) {
  size_t length = 0;
  while (text[length] != 0 && strchr(reject, text[length]) == NULL) length++;
  return length;
}

char *strpbrk(const char *text, const char *accept) {
  text += strcspn(text, accept);
  return *text != 0 ? (char *)text : NULL;
}

char *strstr(const char *text, const char *needle) {
  size_t length = strlen(needle);
  for (; *(text = strchrnul(text, *needle)) != 0; text++)
    if (strncmp(text, needle, length) == 0) return (char *)text;
  return length == 0 ? (char *)text : NULL;
}

char *strtok_r(char *text, const char *separators, char **rest) {
  if (text == NULL) text = *rest;
  text += strspn(text, separators);
  if (*text == 0) {
    *rest = text;
    return NULL;
  }
  char *end = text + strcspn(text, separators);
  *rest = *end == 0 ? end : end + 1;
  *end = 0;
  return text;
}

char *strtok(char *text, const char *separators) {
  static char *rest;
  return strtok_r(text, separators, &rest);
}

char *strndup(const char *text, size_t limit) {
  size_t length = strnlen(text, limit);
  char *copy = malloc(length + 1);
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

char *strdup(const char *text) { return strndup(text, SIZE_MAX); }

int isdigit(int c) { return c >= '0' && c <= '9'; }
int islower(int c) { return c >= 'a' && c <= 'z'; }
int isupper(int c) { return c >= 'A' && c <= 'Z'; }
int isalpha(int c) { return islower(c) || isupper(c); }
int isalnum(int c) { return isalpha(c) || isdigit(c); }
int isblank(int c) { return c == ' ' || c == '\t'; }
int isspace(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
int iscntrl(int c) { return (c >= 0 && c < 32) || c == 127; }
int isprint(int c) { return c >= 32 && c < 127; }
int isgraph(int c) { return c > 32 && c < 127; }
int ispunct(int c) { return isgraph(c) && !isalnum(c); }
int isxdigit(int c) { return isdigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
int tolower(int c) { return isupper(c) ? c + ('a' - 'A') : c; }
int toupper(int c) { return islower(c) ? c - ('a' - 'A') : c; }
