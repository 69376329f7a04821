// fft: iterative and recursive fast Fourier transforms, convolution and long multiplication through them

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

typedef struct {
    double re, im;
} Complex;

static uint32_t lcg = 2463534242u;

static uint32_t random_bits(void)
{
    lcg ^= lcg << 13;
    lcg ^= lcg >> 17;
    lcg ^= lcg << 5;
    return lcg;
}

static Complex c_add(Complex a, Complex b)
{
    Complex r = {a.re + b.re, a.im + b.im};
    return r;
}

static Complex c_sub(Complex a, Complex b)
{
    Complex r = {a.re - b.re, a.im - b.im};
    return r;
}

static Complex c_mul(Complex a, Complex b)
{
    Complex r = {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    return r;
}

static Complex unit_root(double turns)
{
    Complex r = {cos(2.0 * PI * turns), sin(2.0 * PI * turns)};
    return r;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        puts("fft: out of memory");
        exit(1);
    }
    return memory;
}

/* The definition; the sign is -1 forwards and +1 backwards in all transforms. */
static void dft(const Complex *in, Complex *out, int n, int sign)
{
    for (int k = 0; k < n; k++) {
        Complex sum = {0.0, 0.0};
        for (int t = 0; t < n; t++)
            sum = c_add(sum, c_mul(in[t], unit_root((double)sign * (double)(k * t % n) / n)));
        out[k] = sum;
    }
}

static void fft_recursive(const Complex *in, Complex *out, int n, int stride, int sign)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    int half = n / 2;
    fft_recursive(in, out, half, 2 * stride, sign);
    fft_recursive(in + stride, out + half, half, 2 * stride, sign);
    for (int k = 0; k < half; k++) {
        Complex even = out[k];
        Complex odd = c_mul(unit_root((double)sign * k / n), out[k + half]);
        out[k] = c_add(even, odd);
        out[k + half] = c_sub(even, odd);
    }
}

static void bit_reverse(Complex *data, int n)
{
    for (int i = 1, j = 0; i < n; i++) {
        int bit = n >> 1;
        while (j & bit) {
            j ^= bit;
            bit >>= 1;
        }
        j |= bit;
        if (i < j) {
            Complex t = data[i];
            data[i] = data[j];
            data[j] = t;
        }
    }
}

static void fft_iterative(Complex *data, int n, int sign)
{
    assert((n & (n - 1)) == 0);
    Complex *roots = allocate((size_t)n / 2 + 1, sizeof(Complex));
    for (int k = 0; k < n / 2; k++)
        roots[k] = unit_root((double)sign * k / n);
    bit_reverse(data, n);
    for (int length = 2; length <= n; length *= 2) {
        int half = length / 2, step = n / length;
        for (int base = 0; base < n; base += length) {
            for (int k = 0; k < half; k++) {
                Complex even = data[base + k];
                Complex odd = c_mul(roots[k * step], data[base + k + half]);
                data[base + k] = c_add(even, odd);
                data[base + k + half] = c_sub(even, odd);
            }
        }
    }
    free(roots);
}

static double largest_gap(const Complex *a, const Complex *b, int n)
{
    double worst = 0.0;
    for (int i = 0; i < n; i++) {
        Complex d = c_sub(a[i], b[i]);
        worst = fmax(worst, sqrt(d.re * d.re + d.im * d.im));
    }
    return worst;
}

/* Three tones in noise: which bins stand out, and do both transforms say so? */
static void analyse(int n)
{
    Complex *signal = allocate((size_t)n, sizeof(Complex));
    Complex *first = allocate((size_t)n, sizeof(Complex)), *second = allocate((size_t)n, sizeof(Complex));
    for (int t = 0; t < n; t++) {
        double noise = (double)(random_bits() >> 16) / 65536.0 - 0.5;
        signal[t].re = 3.0 * cos(2.0 * PI * (double)(t * 5 % n) / n) + 2.0 * sin(2.0 * PI * (double)(t * 11 % n) / n) + noise;
        signal[t].im = cos(2.0 * PI * (double)(t * 23 % n) / n);
    }
    fft_recursive(signal, first, n, 1, -1);
    memcpy(second, signal, (size_t)n * sizeof(Complex));
    fft_iterative(second, n, -1);
    printf("transforms of %d points %s\n", n, largest_gap(first, second, n) < 1e-7 ? "agree" : "DISAGREE");

    double energy_time = 0.0, energy_frequency = 0.0;
    for (int k = 0; k < n; k++) {
        energy_time += signal[k].re * signal[k].re + signal[k].im * signal[k].im;
        energy_frequency += second[k].re * second[k].re + second[k].im * second[k].im;
    }
    printf("energy %.6f, spectrum %.6f\n", energy_time, energy_frequency / n);
    for (int k = 0; k < n; k++) {
        double size = sqrt(second[k].re * second[k].re + second[k].im * second[k].im) / n;
        if (size > 0.4)
            printf("bin %d: %.6f\n", k, size);
    }
    fft_iterative(second, n, 1);
    for (int k = 0; k < n; k++) {
        second[k].re /= n;
        second[k].im /= n;
    }
    printf("inverse %s\n", largest_gap(signal, second, n) < 1e-9 ? "returns the signal" : "LOSES the signal");
    free(signal);
    free(first);
    free(second);
}

static void compare_with_definition(int n)
{
    Complex *in = allocate((size_t)n, sizeof(Complex)), *slow = allocate((size_t)n, sizeof(Complex));
    for (int i = 0; i < n; i++) {
        in[i].re = (double)(random_bits() % 201u) - 100.0;
        in[i].im = (double)(random_bits() % 201u) - 100.0;
    }
    dft(in, slow, n, -1);
    Complex first = slow[1], middle = slow[n / 2];
    fft_iterative(in, n, -1);
    printf("definition at %d points %s: X[1] = %.5f%+.5fi, X[n/2] = %.5f\n", n,
           largest_gap(in, slow, n) < 1e-6 ? "agrees" : "DISAGREES", first.re, first.im, middle.re);
    free(in);
    free(slow);
}

/* One transform carries both inputs, as real and imaginary parts; the product is then half its square. */
static void convolve(const int *a, int na, const int *b, int nb, int64_t *out)
{
    int n = 1;
    while (n < na + nb)
        n *= 2;
    Complex *both = allocate((size_t)n, sizeof(Complex));
    for (int i = 0; i < na; i++)
        both[i].re = a[i];
    for (int i = 0; i < nb; i++)
        both[i].im = b[i];
    fft_iterative(both, n, -1);
    for (int i = 0; i < n; i++)
        both[i] = c_mul(both[i], both[i]);
    fft_iterative(both, n, 1);
    for (int i = 0; i < na + nb - 1; i++)
        out[i] = (int64_t)floor(both[i].im / (2.0 * n) + 0.5);
    free(both);
}

static void multiply_polynomials(int n)
{
    int *a = allocate((size_t)n, sizeof(int)), *b = allocate((size_t)n, sizeof(int));
    int64_t *fast = allocate(2 * (size_t)n, sizeof(int64_t)), *slow = allocate(2 * (size_t)n, sizeof(int64_t));
    for (int i = 0; i < n; i++) {
        a[i] = (int)(random_bits() % 199u) - 99;
        b[i] = (int)(random_bits() % 199u) - 99;
    }
    convolve(a, n, b, n, fast);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            slow[i + j] += (int64_t)a[i] * b[j];
    uint64_t hash = 1469598103934665603u;
    int wrong = 0;
    for (int i = 0; i < 2 * n - 1; i++) {
        wrong += fast[i] != slow[i];
        hash = (hash ^ (uint64_t)fast[i]) * 1099511628211u;
    }
    printf("product of two polynomials of degree %d: %d wrong, checksum %016llx\n", n - 1, wrong, (unsigned long long)hash);
    free(a);
    free(b);
    free(fast);
    free(slow);
}

/* 3^exponent in base 1000 by repeated squaring, each square a convolution. */
static void power_of_three(int exponent)
{
    int capacity = exponent / 6 + 4, length = 1;
    int *digits = allocate((size_t)capacity, sizeof(int));
    int64_t *square = allocate(2 * (size_t)capacity, sizeof(int64_t));
    int bit = 1;
    while (bit * 2 <= exponent)
        bit *= 2;
    digits[0] = 1;
    for (; bit > 0; bit /= 2) {
        convolve(digits, length, digits, length, square);
        int64_t carry = 0, factor = exponent & bit ? 3 : 1;
        int total = 2 * length - 1;
        for (length = 0; length < total || carry > 0; length++) {
            carry += length < total ? factor * square[length] : 0;
            digits[length] = (int)(carry % 1000);
            carry /= 1000;
        }
    }
    int sum = 0;
    for (int i = 0; i < length; i++)
        sum += digits[i] / 100 + digits[i] / 10 % 10 + digits[i] % 10;
    printf("3^%d: leading %d %03d, trailing %03d, digit sum %d\n", exponent, digits[length - 1], digits[length - 2],
           digits[0], sum);
    free(digits);
    free(square);
}

int main(int argc, char **argv)
{
    int n = 256;
    if (argc > 1) {
        if (strcmp(argv[1], "medium") == 0) {
            n = 4096;
        } else if (strcmp(argv[1], "large") == 0) {
            n = 16384;
        } else if (strcmp(argv[1], "small") != 0) {
            puts("usage: fft [small|medium|large]");
            return 2;
        }
    }
    compare_with_definition(n / 32);
    analyse(n);
    analyse(4 * n);
    multiply_polynomials(n);
    power_of_three(5 * n);
    return 0;
}
