/* pack: compresses standard input to standard output, and the reverse. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bits.h"
#include "crc32.h"
#include "lzss.h"

static const char magic[4] = {'P', 'C', 'K', '1'};

static void read_all(struct buffer *buffer)
{
    int byte;
    while ((byte = getchar()) != EOF)
        buffer_append(buffer, (unsigned)byte);
}

static int write_all(const struct buffer *buffer)
{
    return fwrite(buffer->data, 1, buffer->size, stdout) == buffer->size && !fflush(stdout);
}

static int pack(const struct buffer *input, struct buffer *output)
{
    struct bits bits = {output, 0, 0, 0};
    for (size_t i = 0; i < sizeof magic; i++)
        buffer_append(output, (unsigned)magic[i]);
    bits_put(&bits, (unsigned)input->size, 32);
    bits_put(&bits, crc32(input->data, input->size), 32);
    lzss_pack(input, &bits);
    return 1;
}

static int unpack(struct buffer *input, struct buffer *output)
{
    struct bits bits = {input, sizeof magic, 0, 0};
    unsigned size, checksum;
    if (input->size < sizeof magic || memcmp(input->data, magic, sizeof magic))
        return 0;
    if (!bits_get(&bits, 32, &size) || !bits_get(&bits, 32, &checksum))
        return 0;
    return lzss_unpack(&bits, output, size) && crc32(output->data, output->size) == checksum;
}

int main(int argc, char **argv)
{
    struct buffer input = {0}, output = {0};
    int done, packing = argc == 2 && !strcmp(argv[1], "pack");
    if (!packing && (argc != 2 || strcmp(argv[1], "unpack"))) {
        fputs("usage: pack pack|unpack < input > output\n", stderr);
        return 2;
    }
    read_all(&input);
    done = packing ? pack(&input, &output) : unpack(&input, &output);
    if (!done)
        fputs("pack: the input is damaged, or was not packed by this program\n", stderr);
    else if (!write_all(&output))
        done = 0;
    buffer_free(&input);
    buffer_free(&output);
    return !done;
}
