// stencil: explicit 2-D heat flow on a plate, red-black relaxation of the same plate, and a 3-D Jacobi solver

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int width, height;
    double *now, *next;
    unsigned char *fixed; /* cells that keep their temperature */
} Plate;

static unsigned rng = 777u;

static int random_below(int bound)
{
    rng = rng * 1103515245u + 12345u;
    return (int)((rng >> 16) % (unsigned)bound);
}

static void *zeroed(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (!p) {
        puts("stencil: out of memory");
        exit(1);
    }
    return p;
}

static void hold(Plate *p, int x, int y, double temperature)
{
    int i = y * p->width + x;
    p->fixed[i] = 1;
    p->now[i] = p->next[i] = temperature;
}

/* A cold frame with one warm side, and a few hot and cold spots inside. */
static Plate plate_new(int width, int height, int spots)
{
    Plate p;
    size_t cells = (size_t)width * (size_t)height;
    p.width = width;
    p.height = height;
    p.now = zeroed(cells, sizeof(double));
    p.next = zeroed(cells, sizeof(double));
    p.fixed = zeroed(cells, 1);
    for (int x = 0; x < width; x++) {
        hold(&p, x, 0, 100.0);
        hold(&p, x, height - 1, 0.0);
    }
    for (int y = 1; y < height - 1; y++) {
        hold(&p, 0, y, 50.0 * y / height);
        hold(&p, width - 1, y, 0.0);
    }
    for (int s = 0; s < spots; s++) {
        int x = 2 + random_below(width - 4), y = 2 + random_below(height - 4);
        hold(&p, x, y, s % 3 == 0 ? -40.0 : 250.0);
    }
    return p;
}

static void plate_free(Plate *p)
{
    free(p->now);
    free(p->next);
    free(p->fixed);
}

static void diffuse(Plate *p, double rate)
{
    int w = p->width;
    for (int y = 1; y < p->height - 1; y++) {
        for (int x = 1; x < w - 1; x++) {
            int i = y * w + x;
            double centre = p->now[i];
            double around = p->now[i - 1] + p->now[i + 1] + p->now[i - w] + p->now[i + w];
            p->next[i] = p->fixed[i] ? centre : centre + rate * (around - 4.0 * centre);
        }
    }
    double *t = p->now;
    p->now = p->next;
    p->next = t;
}

/* One over-relaxed Gauss-Seidel sweep over the cells of one colour; returns the largest change. */
static double relax(Plate *p, int colour, double omega)
{
    double largest = 0.0;
    int w = p->width;
    for (int y = 1; y < p->height - 1; y++) {
        for (int x = 1 + (y + colour) % 2; x < w - 1; x += 2) {
            int i = y * w + x;
            if (p->fixed[i])
                continue;
            double wanted = 0.25 * (p->now[i - 1] + p->now[i + 1] + p->now[i - w] + p->now[i + w]);
            double change = omega * (wanted - p->now[i]);
            p->now[i] += change;
            largest = fmax(largest, fabs(change));
        }
    }
    return largest;
}

static void print_plate(const char *label, const Plate *p)
{
    double sum = 0.0, hottest = -1e9, coldest = 1e9;
    int cells = p->width * p->height;
    for (int i = 0; i < cells; i++) {
        sum += p->now[i];
        hottest = fmax(hottest, p->now[i]);
        coldest = fmin(coldest, p->now[i]);
    }
    int mid = p->height / 2 * p->width;
    printf("%s: mean %.6f, range %.1f to %.1f, row", label, sum / cells, coldest, hottest);
    for (int k = 1; k < 5; k++)
        printf(" %.4f", p->now[mid + k * p->width / 5]);
    putchar('\n');
}

/* -laplace(u) = f in the unit cube with u = 0 on its faces, where u = x(1-x) y(1-y) z(1-z) is the solution. */
static void jacobi_cube(int n, int sweeps)
{
    size_t side = (size_t)n + 2, plane = side * side;
    double *u = zeroed(plane * side, sizeof(double)), *v = zeroed(plane * side, sizeof(double));
    double *f = zeroed(plane * side, sizeof(double));
    double h = 1.0 / (n + 1);
    for (int z = 1; z <= n; z++) {
        for (int y = 1; y <= n; y++) {
            for (int x = 1; x <= n; x++) {
                double px = x * h * (1.0 - x * h), py = y * h * (1.0 - y * h), pz = z * h * (1.0 - z * h);
                f[(size_t)z * plane + (size_t)y * side + (size_t)x] = 2.0 * (px * py + py * pz + px * pz);
            }
        }
    }
    double change = 0.0;
    for (int s = 0; s < sweeps; s++) {
        change = 0.0;
        for (int z = 1; z <= n; z++) {
            for (int y = 1; y <= n; y++) {
                const double *here = u + (size_t)z * plane + (size_t)y * side;
                const double *source = f + (size_t)z * plane + (size_t)y * side;
                double *out = v + (size_t)z * plane + (size_t)y * side;
                for (int x = 1; x <= n; x++) {
                    const double *c = here + x;
                    double sum = c[-1] + c[1] + c[-(long)side] + c[side] + c[-(long)plane] + c[plane];
                    double value = (sum + h * h * source[x]) / 6.0;
                    change += (value - *c) * (value - *c);
                    out[x] = value;
                }
            }
        }
        double *t = u;
        u = v;
        v = t;
    }
    double error = 0.0, centre = u[(size_t)(n / 2 + 1) * (plane + side + 1)];
    for (int z = 1; z <= n; z++)
        for (int y = 1; y <= n; y++)
            for (int x = 1; x <= n; x++) {
                double exact = x * h * (1.0 - x * h) * (y * h) * (1.0 - y * h) * (z * h) * (1.0 - z * h);
                error = fmax(error, fabs(u[(size_t)z * plane + (size_t)y * side + (size_t)x] - exact));
            }
    printf("cube %d after %d sweeps: centre %.8f, error %.8f, last change %.8f\n", n, sweeps, centre, error, sqrt(change));
    free(u);
    free(v);
    free(f);
}

int main(int argc, char **argv)
{
    int width = 60, height = 40, steps = 60, cube = 12, sweeps = 60;
    if (argc > 1 && strcmp(argv[1], "medium") == 0) {
        width = 160, height = 120, steps = 300, cube = 24, sweeps = 150;
    } else if (argc > 1 && strcmp(argv[1], "large") == 0) {
        width = 400, height = 300, steps = 800, cube = 44, sweeps = 300;
    } else if (argc > 1 && strcmp(argv[1], "small") != 0) {
        puts("usage: stencil [small|medium|large]");
        return 2;
    }
    Plate plate = plate_new(width, height, 12);
    print_plate("start", &plate);
    for (int s = 0; s < steps; s++)
        diffuse(&plate, 0.2);
    print_plate("heat", &plate);
    double change = 0.0;
    for (int s = 0; s < steps / 2; s++) {
        double red = relax(&plate, 0, 1.7);
        double black = relax(&plate, 1, 1.7);
        change = fmax(red, black);
    }
    print_plate("relaxed", &plate);
    printf("last change %.6f\n", change);
    plate_free(&plate);
    jacobi_cube(cube, sweeps);
    return 0;
}
