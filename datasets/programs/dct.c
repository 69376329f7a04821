// dct: a baseline JPEG encoder and decoder (4:2:0, integer DCT, optimal Huffman tables), measured by size and PSNR

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOI = 0xD8, EOI = 0xD9, DQT = 0xDB, SOF0 = 0xC0, DHT = 0xC4, SOS = 0xDA };

typedef struct {
    uint8_t *data;
    size_t length, capacity;
} Bytes;

typedef struct {
    int width, height;
    uint8_t *rgb;
} Picture;

/* One of Y, Cb, Cr: its samples, padded to whole coding units, and their quantised coefficients. */
typedef struct {
    int sampling;          /* blocks per coding unit in each direction */
    int table;             /* which quantiser and which Huffman tables */
    int across, down;      /* size in blocks */
    uint8_t *samples;      /* 8 * across by 8 * down */
    int16_t (*blocks)[64]; /* coefficients in zig-zag order */
    int previous_dc;
} Component;

typedef struct {
    uint8_t count[17]; /* codes of each length */
    uint8_t values[256];
    int symbols;
    /* for encoding, by symbol */
    uint16_t code[256];
    uint8_t length[256];
    /* for decoding, by length */
    int32_t first[17], last[17], offset[17];
} Huffman;

typedef struct {
    int width, height, units_across, units_down;
    uint16_t quantiser[2][64]; /* in zig-zag order */
    Component component[3];
    Huffman dc[2], ac[2];
} Frame;

static const uint8_t zigzag[64] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

static const uint8_t base_quantiser[2][64] = {
    {16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,  14, 13, 16, 24, 40,  57,
     69, 56, 14, 17, 22,  29,  51,  87,  80, 62, 18, 22, 37,  56,  68,  109, 103, 77, 24, 35, 55, 64,
     81, 104, 113, 92, 49, 64, 78,  87,  103, 121, 120, 101, 72, 92, 95,  98,  112, 100, 103, 99},
    {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99,
     99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
     99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99},
};

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (memory == NULL) {
        puts("dct: out of memory");
        exit(1);
    }
    return memory;
}

static int clamp_byte(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* ---- the scene ---- */

static uint32_t random_state = 99u;

static int random_below(int bound)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 10) % (uint32_t)bound);
}

static Picture draw_picture(int width, int height)
{
    Picture p = {width, height, allocate((size_t)width * (size_t)height, 3)};
    for (int y = 0; y < height; y++) {
        for (int x = 0; x < width; x++) {
            uint8_t *pixel = p.rgb + 3 * (y * width + x);
            int ripple = (x * x / 40 + y * y / 60) % 64;
            pixel[0] = (uint8_t)(60 + 120 * x / width);
            pixel[1] = (uint8_t)(90 + 100 * y / height);
            pixel[2] = (uint8_t)(200 - 140 * y / height + (ripple < 32 ? ripple : 63 - ripple));
        }
    }
    for (int ball = 0; ball < 9; ball++) {
        int cx = random_below(width), cy = random_below(height), r = height / 16 + random_below(height / 8);
        int colour[3];
        for (int c = 0; c < 3; c++)
            colour[c] = random_below(256);
        for (int y = cy - r < 0 ? 0 : cy - r; y < height && y <= cy + r; y++) {
            for (int x = cx - r < 0 ? 0 : cx - r; x < width && x <= cx + r; x++) {
                int d = (x - cx) * (x - cx) + (y - cy) * (y - cy);
                for (int c = 0; c < 3 && d <= r * r; c++)
                    p.rgb[3 * (y * width + x) + c] = (uint8_t)(colour[c] - colour[c] * d / (2 * r * r));
            }
        }
    }
    for (int i = 0; i < 3 * width * height; i++)
        p.rgb[i] = (uint8_t)clamp_byte(p.rgb[i] + random_below(7) - 3);
    return p;
}

/* ---- discrete cosine transform: cos(k pi / 16) in 1/8192, both directions orthonormal ---- */

enum { C1 = 8035, C2 = 7568, C3 = 6811, C4 = 5793, C5 = 4551, C6 = 3135, C7 = 1598 };

static int32_t descale(int32_t value, int bits)
{
    return (value + (1 << (bits - 1))) >> bits;
}

static void forward_line(int32_t *v, int stride, int bits)
{
    int32_t s[4], d[4];
    for (int i = 0; i < 4; i++) {
        s[i] = v[i * stride] + v[(7 - i) * stride];
        d[i] = v[i * stride] - v[(7 - i) * stride];
    }
    v[0 * stride] = descale(C4 * (s[0] + s[1] + s[2] + s[3]), bits);
    v[4 * stride] = descale(C4 * (s[0] - s[1] - s[2] + s[3]), bits);
    v[2 * stride] = descale(C2 * (s[0] - s[3]) + C6 * (s[1] - s[2]), bits);
    v[6 * stride] = descale(C6 * (s[0] - s[3]) - C2 * (s[1] - s[2]), bits);
    v[1 * stride] = descale(C1 * d[0] + C3 * d[1] + C5 * d[2] + C7 * d[3], bits);
    v[3 * stride] = descale(C3 * d[0] - C7 * d[1] - C1 * d[2] - C5 * d[3], bits);
    v[5 * stride] = descale(C5 * d[0] - C1 * d[1] + C7 * d[2] + C3 * d[3], bits);
    v[7 * stride] = descale(C7 * d[0] - C5 * d[1] + C3 * d[2] - C1 * d[3], bits);
}

static void inverse_line(int32_t *v, int stride, int bits)
{
    int32_t f[8], even[4], odd[4];
    for (int k = 0; k < 8; k++)
        f[k] = v[k * stride];
    int32_t sum = C4 * (f[0] + f[4]), difference = C4 * (f[0] - f[4]);
    int32_t outer = C2 * f[2] + C6 * f[6], inner = C6 * f[2] - C2 * f[6];
    even[0] = sum + outer;
    even[1] = difference + inner;
    even[2] = difference - inner;
    even[3] = sum - outer;
    odd[0] = C1 * f[1] + C3 * f[3] + C5 * f[5] + C7 * f[7];
    odd[1] = C3 * f[1] - C7 * f[3] - C1 * f[5] - C5 * f[7];
    odd[2] = C5 * f[1] - C1 * f[3] + C7 * f[5] + C3 * f[7];
    odd[3] = C7 * f[1] - C5 * f[3] + C3 * f[5] - C1 * f[7];
    for (int i = 0; i < 4; i++) {
        v[i * stride] = descale(even[i] + odd[i], bits);
        v[(7 - i) * stride] = descale(even[i] - odd[i], bits);
    }
}

/* Rows keep three more bits than the result, columns take them away again. */
static void transform(int32_t block[64], void (*line)(int32_t *, int, int))
{
    for (int y = 0; y < 8; y++)
        line(block + 8 * y, 1, 14 - 3);
    for (int x = 0; x < 8; x++)
        line(block + x, 8, 14 + 3);
}

/* ---- planes ---- */

static void frame_layout(Frame *f)
{
    f->units_across = (f->width + 15) / 16;
    f->units_down = (f->height + 15) / 16;
    for (int c = 0; c < 3; c++) {
        Component *k = &f->component[c];
        k->across = f->units_across * k->sampling;
        k->down = f->units_down * k->sampling;
        k->samples = allocate((size_t)k->across * (size_t)k->down, 64);
        k->blocks = allocate((size_t)k->across * (size_t)k->down, sizeof k->blocks[0]);
        k->previous_dc = 0;
    }
}

static void frame_free(Frame *f)
{
    for (int c = 0; c < 3; c++) {
        free(f->component[c].samples);
        free(f->component[c].blocks);
    }
}

static void to_ycc(const uint8_t *rgb, int out[3])
{
    int r = rgb[0], g = rgb[1], b = rgb[2];
    out[0] = (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    out[1] = (-11059 * r - 21709 * g + 32768 * b + (128 << 16) + 32767) >> 16;
    out[2] = (32768 * r - 27439 * g - 5329 * b + (128 << 16) + 32767) >> 16;
}

static void from_ycc(int y, int cb, int cr, uint8_t *rgb)
{
    cb -= 128;
    cr -= 128;
    rgb[0] = (uint8_t)clamp_byte(y + ((91881 * cr + 32768) >> 16));
    rgb[1] = (uint8_t)clamp_byte(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
    rgb[2] = (uint8_t)clamp_byte(y + ((116130 * cb + 32768) >> 16));
}

/* Chroma is the mean of two by two pixels; outside the picture its last row and column repeat. */
static void split_planes(Frame *f, const Picture *p)
{
    int columns = f->units_across * 16, rows = f->units_down * 16;
    int *sums = allocate((size_t)columns * (size_t)rows / 4, 2 * sizeof(int));
    for (int y = 0; y < rows; y++) {
        for (int x = 0; x < columns; x++) {
            int px = x < p->width ? x : p->width - 1, py = y < p->height ? y : p->height - 1;
            int ycc[3], cell = y / 2 * (columns / 2) + x / 2;
            to_ycc(p->rgb + 3 * (py * p->width + px), ycc);
            f->component[0].samples[y * columns + x] = (uint8_t)ycc[0];
            sums[2 * cell] += ycc[1];
            sums[2 * cell + 1] += ycc[2];
        }
    }
    for (int cell = 0; cell < columns * rows / 4; cell++) {
        f->component[1].samples[cell] = (uint8_t)((sums[2 * cell] + 2) / 4);
        f->component[2].samples[cell] = (uint8_t)((sums[2 * cell + 1] + 2) / 4);
    }
    free(sums);
}

static Picture join_planes(const Frame *f)
{
    Picture p = {f->width, f->height, allocate((size_t)f->width * (size_t)f->height, 3)};
    const uint8_t *luma = f->component[0].samples, *cb = f->component[1].samples, *cr = f->component[2].samples;
    int stride = f->component[0].across * 8;
    for (int y = 0; y < p.height; y++) {
        for (int x = 0; x < p.width; x++) {
            int cell = y / 2 * (stride / 2) + x / 2;
            from_ycc(luma[y * stride + x], cb[cell], cr[cell], p.rgb + 3 * (y * p.width + x));
        }
    }
    return p;
}

static void scale_quantisers(Frame *f, int quality)
{
    int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 64; i++) {
            int step = (base_quantiser[t][zigzag[i]] * scale + 50) / 100;
            f->quantiser[t][i] = (uint16_t)(step < 1 ? 1 : step > 255 ? 255 : step);
        }
    }
}

static void quantise_component(const Frame *f, Component *k)
{
    for (int b = 0; b < k->across * k->down; b++) {
        const uint8_t *corner = k->samples + b / k->across * 64 * k->across + b % k->across * 8;
        int32_t block[64];
        for (int i = 0; i < 64; i++)
            block[i] = corner[i / 8 * 8 * k->across + i % 8] - 128;
        transform(block, forward_line);
        for (int i = 0; i < 64; i++) {
            int value = block[zigzag[i]], step = f->quantiser[k->table][i];
            k->blocks[b][i] = (int16_t)(value < 0 ? -((-value + step / 2) / step) : (value + step / 2) / step);
        }
    }
}

static void restore_component(const Frame *f, Component *k)
{
    for (int b = 0; b < k->across * k->down; b++) {
        uint8_t *corner = k->samples + b / k->across * 64 * k->across + b % k->across * 8;
        int32_t block[64];
        for (int i = 0; i < 64; i++) {
            int value = k->blocks[b][i] * f->quantiser[k->table][i];
            block[zigzag[i]] = value < -2048 ? -2048 : value > 2047 ? 2047 : value;
        }
        transform(block, inverse_line);
        for (int i = 0; i < 64; i++)
            corner[i / 8 * 8 * k->across + i % 8] = (uint8_t)clamp_byte(block[i] + 128);
    }
}

/* ---- Huffman tables ---- */

/* Code lengths from frequencies: merge the two rarest groups until one is left, every merge lengthens their codes.
   An extra symbol that occurs once takes the code of all ones, which JPEG forbids. */
static void code_lengths(const uint32_t *frequency, int *length)
{
    uint64_t weight[257];
    int chain[257];
    for (int i = 0; i < 257; i++) {
        weight[i] = i < 256 ? frequency[i] : 1;
        chain[i] = -1;
        length[i] = 0;
    }
    for (;;) {
        int rarest = -1, second = -1;
        for (int i = 0; i < 257; i++) {
            if (weight[i] == 0)
                continue;
            if (rarest < 0 || weight[i] <= weight[rarest]) {
                second = rarest;
                rarest = i;
            } else if (second < 0 || weight[i] <= weight[second]) {
                second = i;
            }
        }
        if (second < 0)
            break;
        weight[second] += weight[rarest];
        weight[rarest] = 0;
        int i = second;
        for (;; i = chain[i]) {
            length[i]++;
            if (chain[i] < 0)
                break;
        }
        chain[i] = rarest;
        for (i = rarest; i >= 0; i = chain[i])
            length[i]++;
    }
}

static void assign_codes(Huffman *h)
{
    int32_t code = 0;
    int next = 0;
    memset(h->length, 0, sizeof h->length);
    for (int bits = 1; bits <= 16; bits++) {
        h->first[bits] = code;
        h->offset[bits] = next;
        for (int i = 0; i < h->count[bits]; i++, next++, code++) {
            h->code[h->values[next]] = (uint16_t)code;
            h->length[h->values[next]] = (uint8_t)bits;
        }
        h->last[bits] = code - 1;
        code *= 2;
    }
    h->symbols = next;
}

static void build_huffman(Huffman *h, const uint32_t *frequency)
{
    int length[257], count[64] = {0};
    code_lengths(frequency, length);
    for (int i = 0; i < 257; i++)
        if (length[i] > 0)
            count[length[i] < 63 ? length[i] : 63]++;
    /* No code may exceed 16 bits: take two deep leaves, hang one in their parent's place, the other beside a shallower one. */
    for (int bits = 63; bits > 16; bits--) {
        while (count[bits] > 0) {
            int shallow = bits - 2;
            while (count[shallow] == 0)
                shallow--;
            count[bits] -= 2;
            count[bits - 1]++;
            count[shallow + 1] += 2;
            count[shallow]--;
        }
    }
    int longest = 16;
    while (count[longest] == 0)
        longest--;
    count[longest]--; /* the extra symbol */
    for (int bits = 0; bits <= 16; bits++)
        h->count[bits] = (uint8_t)count[bits];
    int next = 0;
    for (int bits = 1; bits < 64; bits++)
        for (int symbol = 0; symbol < 256; symbol++)
            if (length[symbol] == bits)
                h->values[next++] = (uint8_t)symbol;
    assign_codes(h);
}

/* ---- entropy coding: one walk over the coefficients, given to whoever counts or writes symbols ---- */

typedef struct Sink Sink;
struct Sink {
    void (*symbol)(Sink *self, bool is_dc, int table, int symbol, int extra, int extra_bits);
    const Frame *frame;
    uint32_t frequency[2][2][256]; /* [is_dc][table] */
    Bytes *out;
    uint32_t pending;
    int pending_bits;
};

static int magnitude_bits(int value)
{
    int bits = 0;
    for (int rest = abs(value); rest > 0; rest /= 2)
        bits++;
    return bits;
}

static void count_symbol(Sink *self, bool is_dc, int table, int symbol, int extra, int extra_bits)
{
    (void)extra;
    (void)extra_bits;
    self->frequency[is_dc][table][symbol]++;
}

static void put_byte(Bytes *out, int byte)
{
    if (out->length == out->capacity) {
        out->capacity = out->capacity ? 2 * out->capacity : 1024;
        out->data = realloc(out->data, out->capacity);
        if (out->data == NULL) {
            puts("dct: out of memory");
            exit(1);
        }
    }
    out->data[out->length++] = (uint8_t)byte;
}

static void put_word(Bytes *out, int word)
{
    put_byte(out, word >> 8);
    put_byte(out, word & 255);
}

static void put_bits(Sink *s, int value, int bits)
{
    s->pending = s->pending << bits | (uint32_t)value;
    s->pending_bits += bits;
    while (s->pending_bits >= 8) {
        s->pending_bits -= 8;
        int byte = (int)(s->pending >> s->pending_bits & 255u);
        put_byte(s->out, byte);
        if (byte == 0xFF)
            put_byte(s->out, 0);
    }
    s->pending &= (1u << s->pending_bits) - 1u;
}

static void write_symbol(Sink *self, bool is_dc, int table, int symbol, int extra, int extra_bits)
{
    const Huffman *h = is_dc ? &self->frame->dc[table] : &self->frame->ac[table];
    put_bits(self, h->code[symbol], h->length[symbol]);
    if (extra_bits > 0)
        put_bits(self, extra < 0 ? extra + (1 << extra_bits) - 1 : extra, extra_bits);
}

static void walk_block(Sink *sink, Component *k, const int16_t *block)
{
    int difference = block[0] - k->previous_dc, run = 0;
    k->previous_dc = block[0];
    sink->symbol(sink, true, k->table, magnitude_bits(difference), difference, magnitude_bits(difference));
    for (int i = 1; i < 64; i++) {
        if (block[i] == 0) {
            run++;
            continue;
        }
        for (; run > 15; run -= 16)
            sink->symbol(sink, false, k->table, 0xF0, 0, 0);
        int bits = magnitude_bits(block[i]);
        sink->symbol(sink, false, k->table, run * 16 + bits, block[i], bits);
        run = 0;
    }
    if (run > 0)
        sink->symbol(sink, false, k->table, 0, 0, 0);
}

/* The block's index for block number part of a coding unit. */
static int block_index(const Component *k, int unit_x, int unit_y, int part)
{
    return (unit_y * k->sampling + part / k->sampling) * k->across + unit_x * k->sampling + part % k->sampling;
}

static void walk_scan(Sink *sink, Frame *f)
{
    for (int c = 0; c < 3; c++)
        f->component[c].previous_dc = 0;
    for (int y = 0; y < f->units_down; y++)
        for (int x = 0; x < f->units_across; x++)
            for (int c = 0; c < 3; c++) {
                Component *k = &f->component[c];
                for (int part = 0; part < k->sampling * k->sampling; part++)
                    walk_block(sink, k, k->blocks[block_index(k, x, y, part)]);
            }
}

static void write_huffman(Bytes *out, const Huffman *h, int class_and_index)
{
    put_byte(out, 0xFF);
    put_byte(out, DHT);
    put_word(out, 19 + h->symbols);
    put_byte(out, class_and_index);
    for (int bits = 1; bits <= 16; bits++)
        put_byte(out, h->count[bits]);
    for (int i = 0; i < h->symbols; i++)
        put_byte(out, h->values[i]);
}

static void write_headers(Bytes *out, const Frame *f)
{
    put_word(out, 0xFF00 | SOI);
    for (int t = 0; t < 2; t++) {
        put_word(out, 0xFF00 | DQT);
        put_word(out, 67);
        put_byte(out, t);
        for (int i = 0; i < 64; i++)
            put_byte(out, f->quantiser[t][i]);
    }
    put_word(out, 0xFF00 | SOF0);
    put_word(out, 17);
    put_byte(out, 8);
    put_word(out, f->height);
    put_word(out, f->width);
    put_byte(out, 3);
    for (int c = 0; c < 3; c++) {
        put_byte(out, c + 1);
        put_byte(out, f->component[c].sampling * 17);
        put_byte(out, f->component[c].table);
    }
    for (int t = 0; t < 2; t++) {
        write_huffman(out, &f->dc[t], t);
        write_huffman(out, &f->ac[t], 16 + t);
    }
    put_word(out, 0xFF00 | SOS);
    put_word(out, 12);
    put_byte(out, 3);
    for (int c = 0; c < 3; c++) {
        put_byte(out, c + 1);
        put_byte(out, f->component[c].table * 17);
    }
    put_byte(out, 0);
    put_byte(out, 63);
    put_byte(out, 0);
}

static Bytes encode(const Picture *p, int quality)
{
    Bytes out = {NULL, 0, 0};
    Frame *f = allocate(1, sizeof *f);
    Sink *sink = allocate(1, sizeof *sink);
    f->width = p->width;
    f->height = p->height;
    for (int c = 0; c < 3; c++) {
        f->component[c].sampling = c == 0 ? 2 : 1;
        f->component[c].table = c == 0 ? 0 : 1;
    }
    frame_layout(f);
    scale_quantisers(f, quality);
    split_planes(f, p);
    for (int c = 0; c < 3; c++)
        quantise_component(f, &f->component[c]);

    sink->frame = f;
    sink->symbol = count_symbol;
    walk_scan(sink, f);
    for (int t = 0; t < 2; t++) {
        build_huffman(&f->dc[t], sink->frequency[1][t]);
        build_huffman(&f->ac[t], sink->frequency[0][t]);
    }
    write_headers(&out, f);
    sink->symbol = write_symbol;
    sink->out = &out;
    walk_scan(sink, f);
    if (sink->pending_bits > 0)
        put_bits(sink, (1 << (8 - sink->pending_bits)) - 1, 8 - sink->pending_bits);
    put_word(&out, 0xFF00 | EOI);
    frame_free(f);
    free(f);
    free(sink);
    return out;
}

/* ---- decoding ---- */

typedef struct {
    const uint8_t *data;
    size_t length, at;
    uint32_t pending;
    int pending_bits;
    const char *error;
} Reader;

static int fail(Reader *r, const char *error)
{
    if (r->error == NULL)
        r->error = error;
    return 0;
}

static int get_byte(Reader *r)
{
    if (r->at >= r->length)
        return fail(r, "the stream ends too early");
    return r->data[r->at++];
}

static int get_word(Reader *r)
{
    int high = get_byte(r);
    return high << 8 | get_byte(r);
}

static int get_bits(Reader *r, int bits)
{
    while (r->pending_bits < bits) {
        int byte = get_byte(r);
        if (byte == 0xFF && get_byte(r) != 0)
            fail(r, "a marker stands inside the scan");
        if (r->error != NULL)
            return 0;
        r->pending = r->pending << 8 | (uint32_t)byte;
        r->pending_bits += 8;
    }
    r->pending_bits -= bits;
    int value = (int)(r->pending >> r->pending_bits);
    r->pending &= (1u << r->pending_bits) - 1u;
    return value;
}

static int get_symbol(Reader *r, const Huffman *h)
{
    int32_t code = 0;
    for (int bits = 1; bits <= 16; bits++) {
        code = code * 2 + get_bits(r, 1);
        if (h->count[bits] > 0 && code <= h->last[bits])
            return h->values[h->offset[bits] + code - h->first[bits]];
    }
    return fail(r, "no symbol has this code");
}

static int get_signed(Reader *r, int bits)
{
    if (bits == 0)
        return 0;
    int value = get_bits(r, bits);
    return value < 1 << (bits - 1) ? value - (1 << bits) + 1 : value;
}

static void read_block(Reader *r, const Frame *f, Component *k, int16_t *block)
{
    int bits = get_symbol(r, &f->dc[k->table]);
    if (bits > 11) {
        fail(r, "a constant term is too large");
        return;
    }
    k->previous_dc += get_signed(r, bits);
    block[0] = (int16_t)k->previous_dc;
    for (int i = 1; i < 64 && r->error == NULL; i++) {
        int symbol = get_symbol(r, &f->ac[k->table]);
        if (symbol == 0)
            break;
        i += symbol / 16;
        if (i > 63) {
            fail(r, "a run leaves its block");
            return;
        }
        block[i] = (int16_t)get_signed(r, symbol % 16);
    }
}

static void read_scan(Reader *r, Frame *f)
{
    int components = get_byte(r);
    for (int c = 0; c < components; c++)
        get_word(r);
    get_byte(r);
    get_word(r);
    if (components != 3 || f->component[0].blocks == NULL)
        fail(r, "the scan does not fit the frame");
    for (int y = 0; y < f->units_down && r->error == NULL; y++)
        for (int x = 0; x < f->units_across && r->error == NULL; x++)
            for (int c = 0; c < 3; c++) {
                Component *k = &f->component[c];
                for (int part = 0; part < k->sampling * k->sampling; part++)
                    read_block(r, f, k, k->blocks[block_index(k, x, y, part)]);
            }
}

static void read_frame_header(Reader *r, Frame *f)
{
    if (get_byte(r) != 8)
        fail(r, "samples do not have 8 bits");
    f->height = get_word(r);
    f->width = get_word(r);
    if (get_byte(r) != 3 || f->width == 0 || f->height == 0 || f->component[0].blocks != NULL)
        fail(r, "not one picture of three components");
    for (int c = 0; c < 3; c++) {
        get_byte(r);
        int sampling = get_byte(r);
        f->component[c].sampling = sampling / 16;
        f->component[c].table = get_byte(r) & 1;
        if (sampling != (c == 0 ? 0x22 : 0x11))
            fail(r, "sampling is not 4:2:0");
    }
    if (r->error == NULL)
        frame_layout(f);
}

static void read_huffman(Reader *r, Frame *f)
{
    int which = get_byte(r), total = 0;
    Huffman *h = which / 16 == 0 ? &f->dc[which & 1] : &f->ac[which & 1];
    for (int bits = 1; bits <= 16; bits++) {
        h->count[bits] = (uint8_t)get_byte(r);
        total += h->count[bits];
    }
    if (total > 256) {
        fail(r, "a Huffman table has too many symbols");
        return;
    }
    for (int i = 0; i < total; i++)
        h->values[i] = (uint8_t)get_byte(r);
    assign_codes(h);
}

static const char *decode(const Bytes *in, Picture *out)
{
    Reader reader = {in->data, in->length, 0, 0, 0, NULL};
    Frame *f = allocate(1, sizeof *f);
    bool finished = false;
    if (get_word(&reader) != (0xFF00 | SOI))
        fail(&reader, "this is not a JPEG stream");
    while (!finished && reader.error == NULL) {
        int marker = get_word(&reader);
        if (marker == (0xFF00 | EOI)) {
            finished = true;
            continue;
        }
        size_t end = reader.at; /* a segment's length counts itself */
        int length = get_word(&reader);
        if (length < 2)
            fail(&reader, "a segment has no length");
        end += (size_t)length;
        switch (marker & 255) {
        case DQT: {
            int table = get_byte(&reader) & 1;
            for (int i = 0; i < 64; i++)
                f->quantiser[table][i] = (uint16_t)get_byte(&reader);
            break;
        }
        case SOF0:
            read_frame_header(&reader, f);
            break;
        case DHT:
            read_huffman(&reader, f);
            break;
        case SOS:
            read_scan(&reader, f);
            end = reader.at;
            break;
        default:
            fail(&reader, "a marker is not known");
        }
        reader.at = end;
    }
    if (reader.error == NULL && f->component[0].blocks == NULL)
        fail(&reader, "there is no picture");
    if (reader.error == NULL) {
        for (int c = 0; c < 3; c++)
            restore_component(f, &f->component[c]);
        *out = join_planes(f);
    }
    frame_free(f);
    free(f);
    return reader.error;
}

/* ---- measurements ---- */

static uint32_t adler(const uint8_t *data, size_t length)
{
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < length; i++) {
        a = (a + data[i]) % 65521u;
        b = (b + a) % 65521u;
    }
    return b << 16 | a;
}

static double signal_to_noise(const Picture *a, const Picture *b)
{
    uint64_t squares = 0;
    int total = 3 * a->width * a->height;
    for (int i = 0; i < total; i++) {
        int d = a->rgb[i] - b->rgb[i];
        squares += (uint64_t)(d * d);
    }
    return squares == 0 ? 99.0 : 10.0 * log10(255.0 * 255.0 * total / (double)squares);
}

static void round_trip(const Picture *picture, int quality)
{
    Picture decoded = {0, 0, NULL};
    Bytes stream = encode(picture, quality);
    const char *error = decode(&stream, &decoded);
    if (error != NULL) {
        printf("quality %d: %s\n", quality, error);
    } else {
        size_t bytes = (size_t)decoded.width * (size_t)decoded.height * 3;
        printf("quality %d: %d bytes, stream %08x, decoded %08x, PSNR %.2f dB\n", quality, (int)stream.length,
               (unsigned)adler(stream.data, stream.length), (unsigned)adler(decoded.rgb, bytes),
               signal_to_noise(picture, &decoded));
        free(decoded.rgb);
    }
    free(stream.data);
}

/* Streams cut short or with flipped bits must be refused or give some picture, never hang or crash. */
static void damage(const Picture *picture)
{
    Bytes stream = encode(picture, 40);
    int refused = 0, accepted = 0;
    for (int round = 0; round < 60; round++) {
        Bytes copy = {allocate(stream.length, 1), stream.length, stream.length};
        Picture decoded = {0, 0, NULL};
        memcpy(copy.data, stream.data, stream.length);
        if (round % 3 == 0) {
            copy.length = (size_t)random_below((int)stream.length - 2);
        } else {
            int bit = random_below(8 * (int)stream.length);
            copy.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        if (decode(&copy, &decoded) == NULL) {
            accepted++;
            free(decoded.rgb);
        } else {
            refused++;
        }
        free(copy.data);
    }
    printf("damaged streams: %d refused, %d accepted\n", refused, accepted);
    free(stream.data);
}

int main(int argc, char **argv)
{
    int width = 117, height = 83;
    if (argc > 1 && strcmp(argv[1], "medium") == 0) {
        width = 402, height = 311;
    } else if (argc > 1 && strcmp(argv[1], "large") == 0) {
        width = 1201, height = 905;
    } else if (argc > 1 && strcmp(argv[1], "small") != 0) {
        puts("usage: dct [small|medium|large]");
        return 2;
    }
    Picture picture = draw_picture(width, height);
    printf("picture %d x %d, checksum %08x\n", width, height, (unsigned)adler(picture.rgb, (size_t)(3 * width * height)));
    static const int qualities[] = {15, 50, 75, 92};
    for (int i = 0; i < 4; i++)
        round_trip(&picture, qualities[i]);
    free(picture.rgb);
    Picture small = draw_picture(64, 48);
    damage(&small);
    free(small.rgb);
    return 0;
}
