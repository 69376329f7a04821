#include "bits.h"

#include <stdio.h>
#include <stdlib.h>

void buffer_append(struct buffer *buffer, unsigned byte)
{
    if (buffer->size == buffer->room) {
        size_t room = buffer->room ? 2 * buffer->room : 4096;
        unsigned char *data = realloc(buffer->data, room);
        if (!data) {
            fputs("pack: out of memory\n", stderr);
            exit(2);
        }
        buffer->data = data;
        buffer->room = room;
    }
    buffer->data[buffer->size++] = (unsigned char)byte;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    buffer->data = NULL;
    buffer->size = buffer->room = 0;
}

void bits_put(struct bits *bits, unsigned value, unsigned width)
{
    while (width--) {
        bits->pending = bits->pending << 1 | (value >> width & 1);
        if (++bits->count == 8) {
            buffer_append(bits->buffer, bits->pending & 0xff);
            bits->count = 0;
        }
    }
}

void bits_flush(struct bits *bits)
{
    while (bits->count)
        bits_put(bits, 0, 1);
}

int bits_get(struct bits *bits, unsigned width, unsigned *value)
{
    *value = 0;
    while (width--) {
        if (!bits->count) {
            if (bits->position == bits->buffer->size)
                return 0;
            bits->pending = bits->buffer->data[bits->position++];
            bits->count = 8;
        }
        *value = *value << 1 | (bits->pending >> --bits->count & 1);
    }
    return 1;
}
