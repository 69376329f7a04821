/* A file of one's own for the other examples and for `aiocg search beam examples/dot_product.c`. */

static double dot(const double *a, const double *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

void multiply(const double *matrix, const double *vector, double *result, int rows, int columns) {
    for (int row = 0; row < rows; row++)
        result[row] = dot(matrix + row * columns, vector, columns);
}

double norm_squared(const double *vector, int n) {
    return n > 0 ? dot(vector, vector, n) : 0;
}
