// sparse: compressed sparse rows: matrix-vector products, conjugate gradient, Gauss-Seidel, power iteration

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    int row, col;
    double value;
};

struct triples {
    struct entry *list;
    int count, capacity;
};

struct csr {
    int n;
    int *start;     /* n + 1 offsets */
    int *col;
    double *value;
};

static uint64_t seed = 0x9E3779B97F4A7C15u;

static uint32_t random_below(uint32_t bound)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 33) % bound;
}

static void *checked(void *memory)
{
    if (memory == NULL) {
        puts("sparse: out of memory");
        exit(1);
    }
    return memory;
}

static void add_entry(struct triples *t, int row, int col, double value)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 64;
        t->list = checked(realloc(t->list, (size_t)t->capacity * sizeof *t->list));
    }
    struct entry *e = &t->list[t->count++];
    e->row = row;
    e->col = col;
    e->value = value;
}

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->col != b->col)
        return a->col < b->col ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

/* Entries at one position are summed. */
static struct csr compress(struct triples *t, int n)
{
    struct csr m;
    m.n = n;
    m.start = checked(calloc((size_t)n + 1, sizeof(int)));
    m.col = checked(malloc((size_t)t->count * sizeof(int)));
    m.value = checked(malloc((size_t)t->count * sizeof(double)));
    qsort(t->list, (size_t)t->count, sizeof t->list[0], compare_entries);
    int used = 0;
    for (int i = 0; i < t->count; i++) {
        const struct entry *e = &t->list[i];
        if (i > 0 && e->row == e[-1].row && e->col == e[-1].col) {
            m.value[used - 1] += e->value;
            continue;
        }
        m.col[used] = e->col;
        m.value[used++] = e->value;
        m.start[e->row + 1] = used;
    }
    for (int r = 0; r < n; r++)
        if (m.start[r + 1] == 0)
            m.start[r + 1] = m.start[r];
    free(t->list);
    t->list = NULL;
    t->count = t->capacity = 0;
    return m;
}

static void csr_free(struct csr *m)
{
    free(m->start);
    free(m->col);
    free(m->value);
}

static struct csr transpose(const struct csr *m)
{
    int total = m->start[m->n];
    struct csr t = {m->n, checked(calloc((size_t)m->n + 1, sizeof(int))),
                    checked(malloc((size_t)total * sizeof(int))), checked(malloc((size_t)total * sizeof(double)))};
    int *fill = checked(calloc((size_t)m->n + 1, sizeof(int)));
    for (int k = 0; k < total; k++)
        t.start[m->col[k] + 1]++;
    for (int r = 0; r < m->n; r++)
        t.start[r + 1] += t.start[r];
    memcpy(fill, t.start, (size_t)m->n * sizeof(int));
    for (int r = 0; r < m->n; r++) {
        for (int k = m->start[r]; k < m->start[r + 1]; k++) {
            int slot = fill[m->col[k]]++;
            t.col[slot] = r;
            t.value[slot] = m->value[k];
        }
    }
    free(fill);
    return t;
}

static void spmv(const struct csr *m, const double *x, double *y)
{
    for (int r = 0; r < m->n; r++) {
        double sum = 0.0;
        for (int k = m->start[r]; k < m->start[r + 1]; k++)
            sum += m->value[k] * x[m->col[k]];
        y[r] = sum;
    }
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static double diagonal(const struct csr *m, int r)
{
    for (int k = m->start[r]; k < m->start[r + 1]; k++)
        if (m->col[k] == r)
            return m->value[k];
    return 0.0;
}

/* Five-point Laplacian on a side x side grid. */
static struct csr poisson(int side)
{
    struct triples t = {NULL, 0, 0};
    for (int y = 0; y < side; y++) {
        for (int x = 0; x < side; x++) {
            int here = y * side + x;
            add_entry(&t, here, here, 4.0);
            if (x > 0)
                add_entry(&t, here, here - 1, -1.0);
            if (x < side - 1)
                add_entry(&t, here, here + 1, -1.0);
            if (y > 0)
                add_entry(&t, here, here - side, -1.0);
            if (y < side - 1)
                add_entry(&t, here, here + side, -1.0);
        }
    }
    return compress(&t, side * side);
}

/* Random weighted graph Laplacian plus the identity: symmetric, diagonally dominant, irregular rows. */
static struct csr random_laplacian(int n, int edges)
{
    struct triples t = {NULL, 0, 0};
    for (int i = 0; i < n; i++)
        add_entry(&t, i, i, 1.0);
    for (int e = 0; e < edges; e++) {
        int a = (int)random_below((uint32_t)n);
        uint32_t nearness = random_below(64); /* makes low numbers more common */
        int b = (int)(random_below((uint32_t)n) * nearness / 63u) % n;
        double weight = (double)(1 + random_below(8)) / 4.0;
        if (a == b)
            continue;
        add_entry(&t, a, a, weight);
        add_entry(&t, b, b, weight);
        add_entry(&t, a, b, -weight);
        add_entry(&t, b, a, -weight);
    }
    return compress(&t, n);
}

static bool is_symmetric(const struct csr *m)
{
    struct csr t = transpose(m);
    bool same = memcmp(m->start, t.start, ((size_t)m->n + 1) * sizeof(int)) == 0;
    for (int k = 0; same && k < m->start[m->n]; k++)
        same = m->col[k] == t.col[k] && m->value[k] == t.value[k];
    csr_free(&t);
    return same;
}

/* Conjugate gradient with a Jacobi preconditioner; returns the number of iterations. */
static int conjugate_gradient(const struct csr *m, const double *b, double *x, double tolerance)
{
    int n = m->n, iteration = 0;
    double *work = checked(calloc(4 * (size_t)n, sizeof(double)));
    double *r = work, *z = work + n, *p = work + 2 * n, *q = work + 3 * n;
    memset(x, 0, (size_t)n * sizeof(double));
    memcpy(r, b, (size_t)n * sizeof(double));
    for (int i = 0; i < n; i++)
        p[i] = z[i] = r[i] / diagonal(m, i);
    double rho = dot(r, z, n), target = tolerance * sqrt(dot(b, b, n));
    while (iteration < 10 * n && sqrt(dot(r, r, n)) > target) {
        spmv(m, p, q);
        double alpha = rho / dot(p, q, n);
        for (int i = 0; i < n; i++) {
            x[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        for (int i = 0; i < n; i++)
            z[i] = r[i] / diagonal(m, i);
        double next = dot(r, z, n);
        double beta = next / rho;
        rho = next;
        for (int i = 0; i < n; i++)
            p[i] = z[i] + beta * p[i];
        iteration++;
    }
    free(work);
    return iteration;
}

static void gauss_seidel(const struct csr *m, const double *b, double *x, int sweeps)
{
    for (int s = 0; s < sweeps; s++) {
        for (int r = 0; r < m->n; r++) {
            double sum = b[r], d = 1.0;
            for (int k = m->start[r]; k < m->start[r + 1]; k++) {
                if (m->col[k] == r)
                    d = m->value[k];
                else
                    sum -= m->value[k] * x[m->col[k]];
            }
            x[r] = sum / d;
        }
    }
}

static double largest_eigenvalue(const struct csr *m, int rounds)
{
    int n = m->n;
    double *v = checked(calloc((size_t)n, sizeof(double))), *w = checked(calloc((size_t)n, sizeof(double)));
    double lambda = 0.0;
    for (int i = 0; i < n; i++)
        v[i] = 1.0 + (double)(i % 5);
    for (int k = 0; k < rounds; k++) {
        double length = sqrt(dot(v, v, n));
        for (int i = 0; i < n; i++)
            v[i] /= length;
        spmv(m, v, w);
        lambda = dot(v, w, n);
        double *t = v;
        v = w;
        w = t;
    }
    free(v);
    free(w);
    return lambda;
}

static double residual(const struct csr *m, const double *b, const double *x)
{
    double *ax = checked(calloc((size_t)m->n, sizeof(double))), worst = 0.0;
    spmv(m, x, ax);
    for (int i = 0; i < m->n; i++)
        worst = fmax(worst, fabs(ax[i] - b[i]));
    free(ax);
    return worst;
}

static void solve_and_report(const char *name, const struct csr *m, int sweeps)
{
    size_t n = (size_t)m->n;
    double *b = checked(calloc(n, sizeof(double))), *x = checked(calloc(n, sizeof(double)));
    double *gs = checked(calloc(n, sizeof(double)));
    uint32_t pattern = 2166136261u;
    for (int k = 0; k < m->start[m->n]; k++)
        pattern = (pattern ^ (uint32_t)m->col[k]) * 16777619u;
    printf("%s: %d rows, %d entries, %s, pattern %08x\n", name, m->n, m->start[m->n],
           is_symmetric(m) ? "symmetric" : "not symmetric", (unsigned)pattern);
    for (int i = 0; i < m->n; i++)
        b[i] = (double)(i * 7 % 11) - 5.0;
    int iterations = conjugate_gradient(m, b, x, 1e-10);
    printf("  conjugate gradient: %d iterations, residual %s, x.b = %.6f\n", iterations,
           residual(m, b, x) < 1e-6 ? "small" : "LARGE", dot(x, b, m->n));
    gauss_seidel(m, b, gs, sweeps);
    printf("  gauss-seidel: %d sweeps, residual %.6f, largest eigenvalue %.6f\n", sweeps, residual(m, b, gs),
           largest_eigenvalue(m, sweeps));
    free(b);
    free(x);
    free(gs);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int side, nodes, sweeps;
    } sizes[] = {{"small", 16, 300, 20}, {"medium", 80, 6000, 40}, {"large", 160, 30000, 60}};
    const char *wanted = argc > 1 ? argv[1] : "small";
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(wanted, sizes[i].name) != 0)
            continue;
        struct csr grid = poisson(sizes[i].side);
        struct csr graph = random_laplacian(sizes[i].nodes, 4 * sizes[i].nodes);
        solve_and_report("poisson", &grid, sizes[i].sweeps);
        solve_and_report("laplacian", &graph, sizes[i].sweeps);
        csr_free(&grid);
        csr_free(&graph);
        return 0;
    }
    puts("usage: sparse [small|medium|large]");
    return 2;
}
