// matmul: dense linear algebra: three ways to multiply, LU with partial pivoting, Cholesky, inverses

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int rows, cols;
    double *at;
} Matrix;

static uint32_t rng_state = 12345u;

static uint32_t next_random(void)
{
    rng_state = rng_state * 1664525u + 1013904223u;
    return rng_state >> 8;
}

static Matrix matrix_new(int rows, int cols)
{
    Matrix m;
    m.rows = rows;
    m.cols = cols;
    m.at = calloc((size_t)rows * (size_t)cols, sizeof(double));
    if (!m.at) {
        puts("matmul: out of memory");
        exit(1);
    }
    return m;
}

static void matrix_free(Matrix *m)
{
    free(m->at);
    m->at = NULL;
    m->rows = m->cols = 0;
}

static Matrix matrix_copy(const Matrix *src)
{
    Matrix m = matrix_new(src->rows, src->cols);
    memcpy(m.at, src->at, sizeof(double) * (size_t)src->rows * (size_t)src->cols);
    return m;
}

static double *row(const Matrix *m, int i)
{
    return m->at + (size_t)i * (size_t)m->cols;
}

/* Small integers, so that every product below is exact whatever the order of its additions. */
static void fill_integers(Matrix *m, int limit)
{
    int total = m->rows * m->cols;
    for (int i = 0; i < total; i++)
        m->at[i] = (double)((int)(next_random() % (uint32_t)(2 * limit + 1)) - limit);
}

static void multiply_naive(Matrix *out, const Matrix *a, const Matrix *b)
{
    for (int i = 0; i < a->rows; i++) {
        for (int j = 0; j < b->cols; j++) {
            double sum = 0.0;
            for (int k = 0; k < a->cols; k++)
                sum += a->at[i * a->cols + k] * b->at[k * b->cols + j];
            out->at[i * out->cols + j] = sum;
        }
    }
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

static void multiply_blocked(Matrix *out, const Matrix *a, const Matrix *b)
{
    enum { BLOCK = 24 };
    memset(out->at, 0, sizeof(double) * (size_t)out->rows * (size_t)out->cols);
    for (int ii = 0; ii < a->rows; ii += BLOCK) {
        int i_end = min_int(ii + BLOCK, a->rows);
        for (int kk = 0; kk < a->cols; kk += BLOCK) {
            int k_end = min_int(kk + BLOCK, a->cols);
            for (int jj = 0; jj < b->cols; jj += BLOCK) {
                int j_end = min_int(jj + BLOCK, b->cols);
                for (int i = ii; i < i_end; i++) {
                    double *dst = row(out, i);
                    for (int k = kk; k < k_end; k++) {
                        double factor = a->at[i * a->cols + k];
                        const double *src = row(b, k);
                        for (int j = jj; j < j_end; j++)
                            dst[j] += factor * src[j];
                    }
                }
            }
        }
    }
}

static Matrix quadrant(const Matrix *m, int top, int left, int half)
{
    Matrix q = matrix_new(half, half);
    for (int i = 0; i < half; i++)
        memcpy(row(&q, i), row(m, top + i) + left, sizeof(double) * (size_t)half);
    return q;
}

static Matrix combine(const Matrix *a, const Matrix *b, double sign)
{
    Matrix sum = matrix_new(a->rows, a->cols);
    for (int i = 0; i < a->rows * a->cols; i++)
        sum.at[i] = a->at[i] + sign * b->at[i];
    return sum;
}

/* out[top.., left..] += sign * m */
static void accumulate(Matrix *out, int top, int left, const Matrix *m, double sign)
{
    for (int i = 0; i < m->rows; i++)
        for (int j = 0; j < m->cols; j++)
            row(out, top + i)[left + j] += sign * row(m, i)[j];
}

static void multiply_strassen(Matrix *out, const Matrix *a, const Matrix *b)
{
    int n = a->rows;
    if (n <= 32 || n % 2 != 0) {
        multiply_naive(out, a, b);
        return;
    }
    int half = n / 2;
    Matrix a11 = quadrant(a, 0, 0, half), a12 = quadrant(a, 0, half, half);
    Matrix a21 = quadrant(a, half, 0, half), a22 = quadrant(a, half, half, half);
    Matrix b11 = quadrant(b, 0, 0, half), b12 = quadrant(b, 0, half, half);
    Matrix b21 = quadrant(b, half, 0, half), b22 = quadrant(b, half, half, half);
    Matrix left[7] = {
        combine(&a11, &a22, 1.0), combine(&a21, &a22, 1.0), matrix_copy(&a11), matrix_copy(&a22),
        combine(&a11, &a12, 1.0), combine(&a21, &a11, -1.0), combine(&a12, &a22, -1.0),
    };
    Matrix right[7] = {
        combine(&b11, &b22, 1.0), matrix_copy(&b11), combine(&b12, &b22, -1.0), combine(&b21, &b11, -1.0),
        matrix_copy(&b22), combine(&b11, &b12, 1.0), combine(&b21, &b22, 1.0),
    };
    /* For each of the seven products: its sign in c11, c12, c21, c22. */
    static const signed char signs[7][4] = {
        {1, 0, 0, 1}, {0, 0, 1, -1}, {0, 1, 0, 1}, {1, 0, 1, 0}, {-1, 1, 0, 0}, {0, 0, 0, 1}, {1, 0, 0, 0},
    };
    Matrix product = matrix_new(half, half);
    memset(out->at, 0, sizeof(double) * (size_t)n * (size_t)n);
    for (int p = 0; p < 7; p++) {
        multiply_strassen(&product, &left[p], &right[p]);
        for (int q = 0; q < 4; q++)
            if (signs[p][q] != 0)
                accumulate(out, q / 2 * half, q % 2 * half, &product, signs[p][q]);
        matrix_free(&left[p]);
        matrix_free(&right[p]);
    }
    matrix_free(&product);
    Matrix *parts[8] = {&a11, &a12, &a21, &a22, &b11, &b12, &b21, &b22};
    for (int p = 0; p < 8; p++)
        matrix_free(parts[p]);
}

/* In place: L below the diagonal (unit), U on and above it. Returns the sign of the permutation, 0 when singular. */
static int lu_decompose(Matrix *m, int *perm)
{
    int n = m->rows, sign = 1;
    for (int i = 0; i < n; i++)
        perm[i] = i;
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(row(m, i)[k]) > fabs(row(m, pivot)[k]))
                pivot = i;
        if (fabs(row(m, pivot)[k]) < 1e-12)
            return 0;
        if (pivot != k) {
            double *p = row(m, pivot), *q = row(m, k);
            for (int j = 0; j < n; j++) {
                double t = p[j];
                p[j] = q[j];
                q[j] = t;
            }
            int t = perm[pivot];
            perm[pivot] = perm[k];
            perm[k] = t;
            sign = -sign;
        }
        for (int i = k + 1; i < n; i++) {
            double *target = row(m, i);
            double factor = target[k] / row(m, k)[k];
            target[k] = factor;
            for (int j = k + 1; j < n; j++)
                target[j] -= factor * row(m, k)[j];
        }
    }
    return sign;
}

static void lu_solve(const Matrix *lu, const int *perm, const double *b, double *x)
{
    int n = lu->rows;
    for (int i = 0; i < n; i++) {
        double sum = b[perm[i]];
        for (int j = 0; j < i; j++)
            sum -= row(lu, i)[j] * x[j];
        x[i] = sum;
    }
    for (int i = n - 1; i >= 0; i--) {
        double sum = x[i];
        for (int j = i + 1; j < n; j++)
            sum -= row(lu, i)[j] * x[j];
        x[i] = sum / row(lu, i)[i];
    }
}

static double log_determinant(const Matrix *lu, int *sign)
{
    double total = 0.0;
    for (int i = 0; i < lu->rows; i++) {
        double d = row(lu, i)[i];
        if (d < 0.0)
            *sign = -*sign;
        total += log(fabs(d));
    }
    return total;
}

static Matrix lu_inverse(const Matrix *lu, const int *perm)
{
    int n = lu->rows;
    Matrix inverse = matrix_new(n, n);
    double *unit = calloc((size_t)n, sizeof(double));
    double *column = calloc((size_t)n, sizeof(double));
    for (int j = 0; j < n; j++) {
        unit[j] = 1.0;
        lu_solve(lu, perm, unit, column);
        unit[j] = 0.0;
        for (int i = 0; i < n; i++)
            row(&inverse, i)[j] = column[i];
    }
    free(unit);
    free(column);
    return inverse;
}

/* Lower triangular factor of a symmetric positive definite matrix, or 0 when it is not one. */
static int cholesky(const Matrix *m, Matrix *lower)
{
    for (int i = 0; i < m->rows; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = row(m, i)[j];
            for (int k = 0; k < j; k++)
                sum -= row(lower, i)[k] * row(lower, j)[k];
            if (i == j) {
                if (sum <= 0.0)
                    return 0;
                row(lower, i)[i] = sqrt(sum);
            } else {
                row(lower, i)[j] = sum / row(lower, j)[j];
            }
        }
    }
    return 1;
}

static double max_difference(const Matrix *a, const Matrix *b)
{
    double worst = 0.0;
    for (int i = 0; i < a->rows * a->cols; i++) {
        double d = fabs(a->at[i] - b->at[i]);
        if (d > worst)
            worst = d;
    }
    return worst;
}

static uint32_t integer_checksum(const Matrix *m)
{
    uint32_t hash = 2166136261u;
    for (int i = 0; i < m->rows * m->cols; i++) {
        int32_t value = (int32_t)m->at[i];
        hash = (hash ^ (uint32_t)value) * 16777619u;
    }
    return hash;
}

static void check_products(int n)
{
    static const struct {
        const char *name;
        void (*multiply)(Matrix *, const Matrix *, const Matrix *);
    } methods[] = {{"naive", multiply_naive}, {"blocked", multiply_blocked}, {"strassen", multiply_strassen}};
    Matrix a = matrix_new(n, n), b = matrix_new(n, n), c = matrix_new(n, n);
    fill_integers(&a, 9);
    fill_integers(&b, 9);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        memset(c.at, 0, sizeof(double) * (size_t)n * (size_t)n);
        methods[i].multiply(&c, &a, &b);
        double trace = 0.0;
        for (int d = 0; d < n; d++)
            trace += row(&c, d)[d];
        printf("%-8s trace %.0f checksum %08x\n", methods[i].name, trace, (unsigned)integer_checksum(&c));
    }
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
}

static void check_lu(int n)
{
    Matrix a = matrix_new(n, n);
    fill_integers(&a, 9);
    for (int i = 0; i < n; i++)
        row(&a, i)[i] += (double)(n / 2);
    Matrix lu = matrix_copy(&a);
    int *perm = calloc((size_t)n, sizeof(int));
    double *b = calloc((size_t)n, sizeof(double)), *x = calloc((size_t)n, sizeof(double));
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            b[i] += row(&a, i)[j] * (double)(j % 7 + 1);
    int sign = lu_decompose(&lu, perm);
    lu_solve(&lu, perm, b, x);
    double error = 0.0, weighted = 0.0;
    for (int i = 0; i < n; i++) {
        error = fmax(error, fabs(x[i] - (double)(i % 7 + 1)));
        weighted += x[i] * (double)(i + 1);
    }
    double log_det = log_determinant(&lu, &sign);
    printf("solve    weighted sum %.4f, %s\n", weighted, error < 1e-8 ? "accurate" : "INACCURATE");
    printf("det      sign %d log %.6f\n", sign, log_det);

    Matrix inverse = lu_inverse(&lu, perm), product = matrix_new(n, n), identity = matrix_new(n, n);
    for (int i = 0; i < n; i++)
        row(&identity, i)[i] = 1.0;
    multiply_blocked(&product, &a, &inverse);
    double norm = 0.0;
    for (int i = 0; i < n * n; i++)
        norm += inverse.at[i] * inverse.at[i];
    printf("inverse  norm %.6f, %s\n", sqrt(norm), max_difference(&product, &identity) < 1e-8 ? "accurate" : "INACCURATE");
    free(perm);
    free(b);
    free(x);
    matrix_free(&a);
    matrix_free(&lu);
    matrix_free(&inverse);
    matrix_free(&product);
    matrix_free(&identity);
}

static void check_cholesky(int n)
{
    Matrix a = matrix_new(n, n), gram = matrix_new(n, n), lower = matrix_new(n, n);
    Matrix transposed = matrix_new(n, n), rebuilt = matrix_new(n, n);
    fill_integers(&a, 5);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            row(&transposed, j)[i] = row(&a, i)[j];
    multiply_blocked(&gram, &a, &transposed);
    for (int i = 0; i < n; i++)
        row(&gram, i)[i] += 10.0;
    int positive = cholesky(&gram, &lower);
    double diagonal = 0.0;
    for (int i = 0; i < n; i++) {
        diagonal += row(&lower, i)[i];
        for (int j = 0; j < n; j++)
            row(&transposed, j)[i] = row(&lower, i)[j];
    }
    multiply_blocked(&rebuilt, &lower, &transposed);
    printf("cholesky %s diagonal %.6f, %s\n", positive ? "positive" : "not positive", diagonal,
           max_difference(&rebuilt, &gram) < 1e-7 ? "accurate" : "INACCURATE");
    matrix_free(&a);
    matrix_free(&gram);
    matrix_free(&lower);
    matrix_free(&transposed);
    matrix_free(&rebuilt);
}

int main(int argc, char **argv)
{
    const char *size = argc > 1 ? argv[1] : "small";
    int n;
    if (strcmp(size, "small") == 0)
        n = 48;
    else if (strcmp(size, "medium") == 0)
        n = 192;
    else if (strcmp(size, "large") == 0)
        n = 384;
    else {
        puts("usage: matmul [small|medium|large]");
        return 2;
    }
    printf("matmul   %d x %d\n", n, n);
    check_products(n);
    check_lu(n);
    check_cholesky(n);
    return 0;
}
