#include "lzss.h"

#include <stdlib.h>
#include <string.h>

enum {
    DISTANCE_BITS = 13,
    LENGTH_BITS = 5,
    WINDOW = 1 << DISTANCE_BITS,
    SHORTEST = 3,
    LONGEST = SHORTEST + (1 << LENGTH_BITS) - 1,
    HASH_SIZE = 1 << 12,
    TRIES = 64
};

struct finder {
    long last[HASH_SIZE];
    long previous[WINDOW];
};

static unsigned hash(const unsigned char *at)
{
    return (at[0] << 8 ^ at[1] << 4 ^ at[2]) % HASH_SIZE;
}

static size_t common(const unsigned char *one, const unsigned char *other, size_t limit)
{
    size_t length = 0;
    while (length < limit && one[length] == other[length])
        length++;
    return length;
}

static void remember(struct finder *finder, const struct buffer *plain, size_t at)
{
    if (at + SHORTEST <= plain->size) {
        unsigned slot = hash(plain->data + at);
        finder->previous[at % WINDOW] = finder->last[slot];
        finder->last[slot] = (long)at;
    }
}

static size_t longest(const struct finder *finder, const struct buffer *plain, size_t at, size_t *distance)
{
    size_t best = 0, limit = plain->size - at;
    if (limit < SHORTEST)
        return 0;
    if (limit > LONGEST)
        limit = LONGEST;
    long candidate = finder->last[hash(plain->data + at)];
    for (int tries = 0; tries < TRIES && candidate >= 0; tries++) {
        if (at - (size_t)candidate >= WINDOW)
            break;
        size_t length = common(plain->data + at, plain->data + candidate, limit);
        if (length > best) {
            best = length;
            *distance = at - (size_t)candidate;
        }
        candidate = finder->previous[candidate % WINDOW];
    }
    return best;
}

void lzss_pack(const struct buffer *plain, struct bits *packed)
{
    struct finder *finder = malloc(sizeof *finder);
    if (!finder)
        abort();
    memset(finder, 0xff, sizeof *finder);
    for (size_t at = 0; at < plain->size;) {
        size_t distance = 0, length = longest(finder, plain, at, &distance);
        if (length < SHORTEST) {
            bits_put(packed, 0, 1);
            bits_put(packed, plain->data[at], 8);
            length = 1;
        } else {
            bits_put(packed, 1, 1);
            bits_put(packed, (unsigned)distance, DISTANCE_BITS);
            bits_put(packed, (unsigned)(length - SHORTEST), LENGTH_BITS);
        }
        while (length--)
            remember(finder, plain, at++);
    }
    bits_flush(packed);
    free(finder);
}

int lzss_unpack(struct bits *packed, struct buffer *plain, size_t size)
{
    unsigned is_copy, distance, length, byte;
    while (plain->size < size) {
        if (!bits_get(packed, 1, &is_copy))
            return 0;
        if (!is_copy) {
            if (!bits_get(packed, 8, &byte))
                return 0;
            buffer_append(plain, byte);
            continue;
        }
        if (!bits_get(packed, DISTANCE_BITS, &distance) || !bits_get(packed, LENGTH_BITS, &length))
            return 0;
        if (!distance || distance > plain->size)
            return 0;
        for (length += SHORTEST; length && plain->size < size; length--)
            buffer_append(plain, plain->data[plain->size - distance]);
    }
    return 1;
}
