/* The checksum of zip files and Ethernet. */
#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32(const unsigned char *data, size_t size);

#endif
