/* A destination of bytes: a file descriptor with a buffer before it, or a caller's array. */
#ifndef AIOCG_STREAM_H
#define AIOCG_STREAM_H
#include <stdio.h>

struct aiocg_stream {
  int descriptor; /* -1: the buffer itself is the destination, and what does not fit is dropped */
  char *buffer;
  size_t capacity;
  size_t used;
};

void aiocg_put(FILE *stream, const char *data, size_t size);
void aiocg_fill(FILE *stream, char c, size_t count);
#endif
