/* Compression after Storer and Szymanski: a bit says whether a byte follows, or where it was seen before. */
#ifndef LZSS_H
#define LZSS_H

#include "bits.h"

void lzss_pack(const struct buffer *plain, struct bits *packed);
int lzss_unpack(struct bits *packed, struct buffer *plain, size_t size);

#endif
