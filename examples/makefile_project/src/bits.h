/* Streams of bits over buffers of bytes that grow. */
#ifndef BITS_H
#define BITS_H

#include <stddef.h>

struct buffer {
    unsigned char *data;
    size_t size, room;
};

struct bits {
    struct buffer *buffer;
    size_t position; /* of the next byte to read */
    unsigned pending, count;
};

void buffer_append(struct buffer *buffer, unsigned byte);
void buffer_free(struct buffer *buffer);

void bits_put(struct bits *bits, unsigned value, unsigned width);
void bits_flush(struct bits *bits);
int bits_get(struct bits *bits, unsigned width, unsigned *value);

#endif
