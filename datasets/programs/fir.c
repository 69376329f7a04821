// fir: audio filters: FIR and biquad IIR in floating and fixed point, and a polyphase resampler

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

typedef struct {
    int taps;
    double *h;
    int16_t *q15;
} Fir;

typedef struct {
    double b[3], a[3];
    int32_t fixed_b[3], fixed_a[3]; /* 2.26 */
} Biquad;

enum { RATE = 44100, STAGES = 3, FRACTION = 26 };

static uint32_t dither_state = 20240229u;

static void *allocate(int count, size_t size)
{
    void *memory = calloc((size_t)count, size);
    if (memory == NULL) {
        puts("fir: out of memory");
        exit(1);
    }
    return memory;
}

static int16_t saturate(int64_t value)
{
    return (int16_t)(value > 32767 ? 32767 : value < -32768 ? -32768 : value);
}

/* Three steady tones and a little noise. */
static void synthesise(int16_t *out, int count)
{
    static const double tone[3] = {440.0, 3000.0, 9000.0};
    for (int i = 0; i < count; i++) {
        double sum = 0.0;
        dither_state = dither_state * 1664525u + 1013904223u;
        for (int k = 0; k < 3; k++)
            sum += 8000.0 * sin(2.0 * PI * fmod(tone[k] * i / RATE, 1.0));
        out[i] = saturate((int64_t)floor(sum + (double)(dither_state >> 24) / 4.0));
    }
}

/* Level of one frequency by Goertzel's recurrence, in decibels below full scale; the ends, where filters settle, are left out. */
static double level(const int16_t *in, int count, double frequency, double rate)
{
    int from = count / 4, used = count / 2;
    double k = 2.0 * cos(2.0 * PI * frequency / rate), s1 = 0.0, s2 = 0.0;
    for (int i = 0; i < used; i++) {
        double window = 0.5 - 0.5 * cos(2.0 * PI * i / used);
        double s0 = window * in[from + i] / 32768.0 + k * s1 - s2;
        s2 = s1;
        s1 = s0;
    }
    double power = s1 * s1 + s2 * s2 - k * s1 * s2;
    return 10.0 * log10(power * 16.0 / ((double)used * used) + 1e-9);
}

static void report(const char *name, const int16_t *sound, int count, double rate)
{
    uint32_t sum = 0;
    for (int i = 0; i < count; i++)
        sum = (sum << 5 | sum >> 27) ^ (uint16_t)sound[i];
    printf("%-14s %7d samples, %08x, 440 Hz %.1f dB, 3000 Hz %.1f dB, 9000 Hz %.1f dB\n", name, count, (unsigned)sum,
           level(sound, count, 440.0, rate), level(sound, count, 3000.0, rate), level(sound, count, 9000.0, rate));
}

static double sinc(double x)
{
    return fabs(x) < 1e-9 ? 1.0 : sin(PI * x) / (PI * x);
}

static double blackman(int i, int taps)
{
    double t = 2.0 * PI * i / (taps - 1);
    return 0.42 - 0.5 * cos(t) + 0.08 * cos(2.0 * t);
}

/* A low pass whose gain at zero is exactly one; cutoff is a fraction of the sampling rate. */
static Fir fir_low_pass(int taps, double cutoff)
{
    Fir f = {taps, allocate(taps, sizeof(double)), allocate(taps, sizeof(int16_t))};
    double total = 0.0;
    for (int i = 0; i < taps; i++) {
        f.h[i] = 2.0 * cutoff * sinc(2.0 * cutoff * (i - 0.5 * (taps - 1))) * blackman(i, taps);
        total += f.h[i];
    }
    for (int i = 0; i < taps; i++) {
        f.h[i] /= total;
        f.q15[i] = saturate((int64_t)floor(32768.0 * f.h[i] + 0.5));
    }
    return f;
}

/* What a low pass takes away: a delayed unit pulse minus it. */
static Fir fir_high_pass(int taps, double cutoff)
{
    Fir f = fir_low_pass(taps, cutoff);
    for (int i = 0; i < taps; i++) {
        f.h[i] = (i == taps / 2 ? 1.0 : 0.0) - f.h[i];
        f.q15[i] = saturate((i == taps / 2 ? 32768 : 0) - f.q15[i]);
    }
    return f;
}

static void fir_free(Fir *f)
{
    free(f->h);
    free(f->q15);
}

static void fir_float(const Fir *f, const int16_t *in, int16_t *out, int count)
{
    for (int n = 0; n < count; n++) {
        double sum = 0.0;
        int reach = n + 1 < f->taps ? n + 1 : f->taps;
        for (int k = 0; k < reach; k++)
            sum += f->h[k] * in[n - k];
        out[n] = saturate((int64_t)floor(sum + 0.5));
    }
}

/* Streaming form with a ring of past samples, as a device with a small memory would do it. */
static void fir_fixed(const Fir *f, const int16_t *in, int16_t *out, int count)
{
    int16_t *ring = allocate(f->taps, sizeof(int16_t));
    int newest = 0;
    for (int n = 0; n < count; n++) {
        int64_t sum = 1 << 14;
        ring[newest] = in[n];
        int at = newest;
        for (int k = 0; k < f->taps; k++) {
            sum += (int32_t)f->q15[k] * ring[at];
            at = at == 0 ? f->taps - 1 : at - 1;
        }
        out[n] = saturate(sum >> 15);
        newest = newest + 1 == f->taps ? 0 : newest + 1;
    }
    free(ring);
}

static int count_differences(const int16_t *a, const int16_t *b, int count, int tolerance)
{
    int different = 0;
    for (int i = 0; i < count; i++)
        different += abs(a[i] - b[i]) > tolerance;
    return different;
}

/* Bilinear-transformed second-order sections. */
static Biquad biquad_normalise(double b0, double b1, double b2, double a0, double a1, double a2)
{
    Biquad q = {{b0 / a0, b1 / a0, b2 / a0}, {1.0, a1 / a0, a2 / a0}, {0, 0, 0}, {0, 0, 0}};
    for (int i = 0; i < 3; i++) {
        q.fixed_b[i] = (int32_t)floor(q.b[i] * (1 << FRACTION) + 0.5);
        q.fixed_a[i] = (int32_t)floor(q.a[i] * (1 << FRACTION) + 0.5);
    }
    return q;
}

static Biquad biquad_low_pass(double frequency, double quality)
{
    double w = 2.0 * PI * frequency / RATE, alpha = sin(w) / (2.0 * quality), c = cos(w);
    return biquad_normalise((1.0 - c) / 2.0, 1.0 - c, (1.0 - c) / 2.0, 1.0 + alpha, -2.0 * c, 1.0 - alpha);
}

static Biquad biquad_peak(double frequency, double quality, double decibels)
{
    double w = 2.0 * PI * frequency / RATE, alpha = sin(w) / (2.0 * quality), gain = pow(10.0, decibels / 40.0);
    double c = -2.0 * cos(w);
    return biquad_normalise(1.0 + alpha * gain, c, 1.0 - alpha * gain, 1.0 + alpha / gain, c, 1.0 - alpha / gain);
}

static Biquad biquad_notch(double frequency, double quality)
{
    double w = 2.0 * PI * frequency / RATE, alpha = sin(w) / (2.0 * quality), c = -2.0 * cos(w);
    return biquad_normalise(1.0, c, 1.0, 1.0 + alpha, c, 1.0 - alpha);
}

/* Transposed direct form II. */
static void iir_float(const Biquad *stage, const int16_t *in, int16_t *out, int count)
{
    double memory[STAGES][2] = {{0.0}};
    for (int n = 0; n < count; n++) {
        double x = in[n];
        for (int s = 0; s < STAGES; s++) {
            const Biquad *q = &stage[s];
            double y = q->b[0] * x + memory[s][0];
            memory[s][0] = q->b[1] * x - q->a[1] * y + memory[s][1];
            memory[s][1] = q->b[2] * x - q->a[2] * y;
            x = y;
        }
        out[n] = saturate((int64_t)floor(x + 0.5));
    }
}

/* Direct form I; samples carry eight bits below the point between stages. */
static void iir_fixed(const Biquad *stage, const int16_t *in, int16_t *out, int count)
{
    int32_t x[STAGES][3] = {{0}}, y[STAGES][3] = {{0}};
    for (int n = 0; n < count; n++) {
        int32_t value = in[n] * 256;
        for (int s = 0; s < STAGES; s++) {
            const Biquad *q = &stage[s];
            x[s][0] = value;
            int64_t sum = (int64_t)1 << (FRACTION - 1);
            for (int k = 0; k < 3; k++)
                sum += (int64_t)q->fixed_b[k] * x[s][k];
            for (int k = 1; k < 3; k++)
                sum -= (int64_t)q->fixed_a[k] * y[s][k];
            value = (int32_t)(sum >> FRACTION);
            y[s][0] = value;
            for (int k = 2; k > 0; k--) {
                x[s][k] = x[s][k - 1];
                y[s][k] = y[s][k - 1];
            }
        }
        out[n] = saturate((value + 128) >> 8);
    }
}

/* 44.1 to 48 kHz: of the filter for the rate raised 160 times, only the taps that meet real samples are used. */
static int resample(const int16_t *in, int count, int16_t *out)
{
    enum { UP = 160, DOWN = 147, PER_PHASE = 24 };
    Fir prototype = fir_low_pass(UP * PER_PHASE, 0.45 / UP);
    int produced = 0;
    for (int64_t position = 0; position / UP < count; position += DOWN) {
        int newest = (int)(position / UP), phase = (int)(position % UP);
        double sum = 0.0;
        for (int k = 0; k < PER_PHASE && k <= newest; k++)
            sum += prototype.h[phase + k * UP] * in[newest - k];
        out[produced++] = saturate((int64_t)floor(UP * sum + 0.5));
    }
    fir_free(&prototype);
    return produced;
}

typedef void (*FirFunction)(const Fir *, const int16_t *, int16_t *, int);
typedef void (*IirFunction)(const Biquad *, const int16_t *, int16_t *, int);

int main(int argc, char **argv)
{
    int count = 4000;
    if (argc > 1 && strcmp(argv[1], "medium") == 0) {
        count = 60000;
    } else if (argc > 1 && strcmp(argv[1], "large") == 0) {
        count = 600000;
    } else if (argc > 1 && strcmp(argv[1], "small") != 0) {
        puts("usage: fir [small|medium|large]");
        return 2;
    }
    static const FirFunction fir_run[2] = {fir_float, fir_fixed};
    static const IirFunction iir_run[2] = {iir_float, iir_fixed};
    static const char *const names[3][2] = {{"low float", "low fixed"}, {"high float", "high fixed"}, {"iir float", "iir fixed"}};
    int16_t *sound = allocate(count, sizeof(int16_t));
    int16_t *out[2] = {allocate(count + count / 8 + 8, sizeof(int16_t)), allocate(count, sizeof(int16_t))};
    synthesise(sound, count);
    report("input", sound, count, RATE);
    Fir low = fir_low_pass(63, 2000.0 / RATE), high = fir_high_pass(63, 6000.0 / RATE);
    Biquad chain[STAGES] = {biquad_low_pass(7000.0, 0.707), biquad_peak(440.0, 1.5, 4.0), biquad_notch(3000.0, 4.0)};
    for (int filter = 0; filter < 3; filter++) {
        for (int version = 0; version < 2; version++) {
            if (filter == 2)
                iir_run[version](chain, sound, out[version], count);
            else
                fir_run[version](filter == 0 ? &low : &high, sound, out[version], count);
            report(names[filter][version], out[version], count, RATE);
        }
        printf("  apart by more than 2: %d\n", count_differences(out[0], out[1], count, 2));
    }
    int produced = resample(sound, count, out[0]);
    report("resampled", out[0], produced, 48000.0);
    fir_free(&low);
    fir_free(&high);
    free(sound);
    free(out[0]);
    free(out[1]);
    return 0;
}
