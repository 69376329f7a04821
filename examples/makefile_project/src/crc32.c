#include "crc32.h"

static uint32_t table[256];

static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
        table[byte] = value;
    }
}

uint32_t crc32(const unsigned char *data, size_t size)
{
    uint32_t value = 0xffffffffu;
    if (!table[1])
        make_table();
    for (size_t i = 0; i < size; i++)
        value = value >> 8 ^ table[(value ^ data[i]) & 0xff];
    return ~value;
}
