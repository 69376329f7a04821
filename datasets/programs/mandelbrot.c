// mandelbrot: escape times in floating and in fixed point, with a histogram and a small picture

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define FRACTION 26
#define LIMIT 96

typedef int (*EscapeTime)(int32_t cx, int32_t cy);

/* Coordinates come in fixed point, so both versions start from the same numbers. */
static int escape_fixed(int32_t cx, int32_t cy)
{
    int64_t x = 0, y = 0;
    int n = 0;
    while (n < LIMIT) {
        int64_t xx = x * x / (1 << FRACTION), yy = y * y / (1 << FRACTION);
        if (xx + yy > (int64_t)4 << FRACTION)
            break;
        y = 2 * x * y / (1 << FRACTION) + cy;
        x = xx - yy + cx;
        n++;
    }
    return n;
}

static int escape_float(int32_t cx, int32_t cy)
{
    double a = (double)cx / (1 << FRACTION), b = (double)cy / (1 << FRACTION);
    double x = 0.0, y = 0.0;
    int n = 0;
    while (n < LIMIT && x * x + y * y <= 4.0) {
        double t = x * x - y * y + a;
        y = 2.0 * x * y + b;
        x = t;
        n++;
    }
    return n;
}

static void render(EscapeTime escape, int width, int height, unsigned char *picture)
{
    int32_t step = (int32_t)(((int64_t)3 << FRACTION) / width);
    for (int j = 0; j < height; j++) {
        int32_t cy = (j - height / 2) * step + step / 3;
        for (int i = 0; i < width; i++) {
            int32_t cx = (i - width * 11 / 16) * step + step / 5;
            picture[j * width + i] = (unsigned char)escape(cx, cy);
        }
    }
}

static void print_histogram(const unsigned char *picture, int pixels)
{
    int count[LIMIT + 1] = {0};
    uint32_t checksum = 0;
    for (int i = 0; i < pixels; i++) {
        count[picture[i]]++;
        checksum = checksum * 31u + picture[i];
    }
    printf("inside %d, checksum %08x, escapes by octave:", count[LIMIT], (unsigned)checksum);
    for (int low = 1; low < LIMIT; low *= 2) {
        int total = 0;
        for (int n = low; n < 2 * low && n < LIMIT; n++)
            total += count[n];
        printf(" %d", total);
    }
    putchar('\n');
}

static void print_picture(const unsigned char *picture, int width, int height)
{
    static const char shades[] = " .:-=+*%@#";
    for (int row = 0; row < 12; row++) {
        for (int column = 0; column < 48; column++) {
            int n = picture[row * height / 12 * width + column * width / 48];
            putchar(n == LIMIT ? '#' : shades[n * 9 / LIMIT]);
        }
        puts("|");
    }
}

static unsigned char fixed[1280 * 960], floating[1280 * 960];

int main(int argc, char **argv)
{
    int width = 64, height = 48;
    if (argc > 1 && strcmp(argv[1], "medium") == 0)
        width = 400, height = 300;
    else if (argc > 1 && strcmp(argv[1], "large") == 0)
        width = 1280, height = 960;
    else if (argc > 1 && strcmp(argv[1], "small") != 0) {
        puts("usage: mandelbrot [small|medium|large]");
        return 2;
    }
    int pixels = width * height, different = 0;
    render(escape_fixed, width, height, fixed);
    render(escape_float, width, height, floating);
    print_histogram(fixed, pixels);
    print_histogram(floating, pixels);
    for (int i = 0; i < pixels; i++)
        different += fixed[i] != floating[i];
    printf("%d of %d pixels differ\n", different, pixels);
    print_picture(floating, width, height);
    return 0;
}
