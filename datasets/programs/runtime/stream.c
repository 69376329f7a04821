/* Standard output (buffered until it is full or the program ends) and standard error (never kept back). */
#include "stream.h"

#include <string.h>

#include "system.h"

static char output_buffer[1 << 15], error_buffer[256];
static FILE output = {1, output_buffer, sizeof output_buffer, 0};
static FILE errors = {2, error_buffer, sizeof error_buffer, 0};

FILE *stdout = &output;
FILE *stderr = &errors;

int fflush(FILE *stream) {
  if (stream == NULL) {
    aiocg_flush();
  } else if (stream->descriptor >= 0) {
    aiocg_write(stream->descriptor, stream->buffer, stream->used);
    stream->used = 0;
  }
  return 0;
}

void aiocg_flush(void) {
  fflush(&output);
  fflush(&errors);
}

void aiocg_put(FILE *stream, const char *data, size_t size) {
  while (size > 0) {
    size_t room = stream->capacity - stream->used;
    size_t taken = size < room ? size : room;
    memcpy(stream->buffer + stream->used, data, taken);
    stream->used += taken;
    data += taken;
    size -= taken;
    if (size > 0) {
      if (stream->descriptor < 0) return;
      fflush(stream);
    }
  }
}

void aiocg_fill(FILE *stream, char c, size_t count) {
  while (count-- > 0) aiocg_put(stream, &c, 1);
}

static void finish_call(FILE *stream) {
  if (stream == &errors) fflush(stream);
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *stream) {
  aiocg_put(stream, data, size * count);
  finish_call(stream);
  return size == 0 ? 0 : count;
}

int fputs(const char *text, FILE *stream) {
  fwrite(text, 1, strlen(text), stream);
  return 0;
}

int fputc(int c, FILE *stream) {
  char byte = (char)c;
  fwrite(&byte, 1, 1, stream);
  return (unsigned char)c;
}

int putc(int c, FILE *stream) { return fputc(c, stream); }

int putchar(int c) { return fputc(c, &output); }

int puts(const char *text) {
  aiocg_put(&output, text, strlen(text));
  aiocg_put(&output, "\n", 1);
  return 0;
}
