// adpcm: IMA ADPCM in blocks of mono or stereo sound, with the signal-to-noise ratio of what comes back

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_SAMPLES 505 /* the first is stored whole, the rest take four bits each */
#define BLOCK_BYTES (4 + (BLOCK_SAMPLES - 1) / 2)

typedef struct {
    int predicted;
    int index;
} Channel;

static const int16_t step_size[89] = {
    7,    8,    9,    10,   11,   12,   13,   14,   16,   17,   19,   21,    23,    25,    28,    31,    34,    37,
    41,   45,   50,   55,   60,   66,   73,   80,   88,   97,   107,  118,   130,   143,   157,   173,   190,   209,
    230,  253,  279,  307,  337,  371,  408,  449,  494,  544,  598,  658,   724,   796,   876,   963,   1060,  1166,
    1282, 1411, 1552, 1707, 1878, 2066, 2272, 2499, 2749, 3024, 3327, 3660,  4026,  4428,  4871,  5358,  5894,  6484,
    7132, 7845, 8630, 9493, 10442, 11487, 12635, 13899, 15289, 16818, 18500, 20350, 22385, 24623, 27086, 29794, 32767,
};

static const int8_t index_change[8] = {-1, -1, -1, -1, 2, 4, 6, 8};

static int clamp(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

static int advance(Channel *c, int code)
{
    int step = step_size[c->index], delta = step >> 3;
    if (code & 4)
        delta += step;
    if (code & 2)
        delta += step >> 1;
    if (code & 1)
        delta += step >> 2;
    c->predicted = clamp(c->predicted + (code & 8 ? -delta : delta), -32768, 32767);
    c->index = clamp(c->index + index_change[code & 7], 0, 88);
    return c->predicted;
}

static int encode_sample(Channel *c, int sample)
{
    int difference = sample - c->predicted, step = step_size[c->index], code = 0;
    if (difference < 0) {
        code = 8;
        difference = -difference;
    }
    for (int bit = 4; bit > 0; bit >>= 1, step >>= 1) {
        if (difference >= step) {
            code |= bit;
            difference -= step;
        }
    }
    advance(c, code);
    return code;
}

/* Sound of several channels is interleaved; each block of a channel starts with its sample and step index. */
static void encode_block(const int16_t *in, int channels, Channel *c, uint8_t *out)
{
    c->predicted = in[0];
    out[0] = (uint8_t)(c->predicted & 255);
    out[1] = (uint8_t)(c->predicted >> 8 & 255);
    out[2] = (uint8_t)c->index;
    out[3] = 0;
    for (int i = 1; i < BLOCK_SAMPLES; i += 2) {
        int low = encode_sample(c, in[i * channels]);
        int high = encode_sample(c, in[(i + 1) * channels]);
        out[4 + i / 2] = (uint8_t)(low | high << 4);
    }
}

static void decode_block(const uint8_t *in, int channels, int16_t *out)
{
    int stored = in[0] | in[1] << 8;
    Channel c = {stored >= 32768 ? stored - 65536 : stored, clamp(in[2], 0, 88)};
    out[0] = (int16_t)c.predicted;
    for (int i = 1; i < BLOCK_SAMPLES; i++) {
        int byte = in[4 + (i - 1) / 2];
        out[i * channels] = (int16_t)advance(&c, i % 2 ? byte & 15 : byte >> 4);
    }
}

/* A sine drawn as two parabolas; one turn is 2^32. */
static int wave(uint32_t phase)
{
    int x = (int)(phase >> 16) - 32768;
    return (int)((int64_t)x * (32768 - abs(x)) / 8192) * 32767 / 32768;
}

static void synthesise(int16_t *sound, int frames, int channels)
{
    static const uint32_t notes[] = {26000000u, 29200000u, 32750000u, 39000000u, 49100000u, 19500000u};
    uint32_t noise = 1u, phase = 0, overtone = 0;
    for (int i = 0; i < frames; i++) {
        uint32_t note = notes[i / 3000 % 6];
        int loudness = 3000 - i % 3000;
        phase += note;
        overtone += 3 * note + 70000u;
        for (int k = 0; k < channels; k++) {
            noise = noise * 1103515245u + 12345u;
            int hiss = (int)(noise >> 20) - 2048;
            int tone = wave(phase + (uint32_t)k * 0x20000000u) / 4 * 3 + wave(overtone) / 6;
            sound[i * channels + k] = (int16_t)clamp(tone / 3000 * loudness + hiss / 8, -32768, 32767);
        }
    }
}

static void round_trip(const char *name, int blocks, int channels)
{
    int frames = blocks * BLOCK_SAMPLES;
    size_t samples = (size_t)frames * (size_t)channels, bytes = (size_t)blocks * (size_t)channels * BLOCK_BYTES;
    int16_t *sound = calloc(samples, sizeof *sound), *back = calloc(samples, sizeof *back);
    uint8_t *packed = calloc(bytes, 1);
    if (!sound || !back || !packed) {
        puts("adpcm: out of memory");
        exit(1);
    }
    synthesise(sound, frames, channels);
    for (int k = 0; k < channels; k++) {
        Channel state = {0, 0};
        for (int b = 0; b < blocks; b++)
            encode_block(sound + b * BLOCK_SAMPLES * channels + k, channels, &state, packed + (b * channels + k) * BLOCK_BYTES);
    }
    for (int b = 0; b < blocks; b++)
        for (int k = 0; k < channels; k++)
            decode_block(packed + (b * channels + k) * BLOCK_BYTES, channels, back + b * BLOCK_SAMPLES * channels + k);

    uint32_t packed_sum = 0, back_sum = 0;
    int64_t signal = 0, noise = 0;
    int worst = 0;
    for (size_t i = 0; i < bytes; i++)
        packed_sum = packed_sum * 33u ^ packed[i];
    for (size_t i = 0; i < samples; i++) {
        int error = back[i] - sound[i];
        back_sum = back_sum * 33u ^ (uint16_t)back[i];
        signal += (int64_t)sound[i] * sound[i];
        noise += (int64_t)error * error;
        worst = abs(error) > worst ? abs(error) : worst;
    }
    printf("%s: %d samples in %d bytes, packed %08x, decoded %08x\n", name, (int)samples, (int)bytes, (unsigned)packed_sum,
           (unsigned)back_sum);
    printf("  signal to noise %.2f dB, worst error %d\n", 10.0 * log10((double)signal / (double)noise), worst);
    free(sound);
    free(back);
    free(packed);
}

int main(int argc, char **argv)
{
    int blocks = 40;
    if (argc > 1 && strcmp(argv[1], "medium") == 0) {
        blocks = 1500;
    } else if (argc > 1 && strcmp(argv[1], "large") == 0) {
        blocks = 12000;
    } else if (argc > 1 && strcmp(argv[1], "small") != 0) {
        puts("usage: adpcm [small|medium|large]");
        return 2;
    }
    round_trip("mono", blocks, 1);
    round_trip("stereo", blocks / 2, 2);
    return 0;
}
