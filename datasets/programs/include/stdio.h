/* Formatted output to the standard streams and to memory; there are no files. */
#ifndef AIOCG_STDIO_H
#define AIOCG_STDIO_H
#include <stdarg.h>
#include <stddef.h>
#define EOF (-1)
#define BUFSIZ 4096
#ifdef __cplusplus
extern "C" {
#endif
typedef struct aiocg_stream FILE;
extern FILE *stdout;
extern FILE *stderr;
#define stdout stdout
#define stderr stderr
int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fprintf(FILE *stream, const char *format, ...) __attribute__((format(printf, 2, 3)));
int sprintf(char *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
int snprintf(char *buffer, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vprintf(const char *format, va_list arguments) __attribute__((format(printf, 1, 0)));
int vfprintf(FILE *stream, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
int vsprintf(char *buffer, const char *format, va_list arguments) __attribute__((format(printf, 2, 0)));
int vsnprintf(char *buffer, size_t size, const char *format, va_list arguments)
    __attribute__((format(printf, 3, 0)));
int puts(const char *text);
int putchar(int c);
int putc(int c, FILE *stream);
int fputc(int c, FILE *stream);
int fputs(const char *text, FILE *stream);
size_t fwrite(const void *data, size_t size, size_t count, FILE *stream);
int fflush(FILE *stream);
#ifdef __cplusplus
}
#endif
#endif
