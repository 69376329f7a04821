// matrix: dense linear algebra with expression templates: LU and QR factorisation, least squares and eigenvalues
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// An expression knows its size and any element of itself; nothing is computed before it is stored.
template <typename E> struct Expression {
    const E &self() const { return static_cast<const E &>(*this); }
    int rows() const { return self().rows(); }
    int columns() const { return self().columns(); }
    double operator()(int row, int column) const { return self()(row, column); }
};

class Matrix : public Expression<Matrix> {
public:
    Matrix() = default;
    Matrix(int rows, int columns) : rows_(rows), columns_(columns), values_(allocate(rows * columns)) {}
    Matrix(const Matrix &other) : Matrix(other.rows_, other.columns_) { memcpy(values_, other.values_, bytes()); }
    Matrix(Matrix &&other) : rows_(other.rows_), columns_(other.columns_), values_(other.values_) {
        other.values_ = nullptr;
        other.rows_ = other.columns_ = 0;
    }
    template <typename E> Matrix(const Expression<E> &expression) : Matrix(expression.rows(), expression.columns()) {
        for (int i = 0; i < rows_; i++)
            for (int j = 0; j < columns_; j++)
                (*this)(i, j) = expression(i, j);
    }
    ~Matrix() { delete[] values_; }

    Matrix &operator=(Matrix other) {
        swap(rows_, other.rows_);
        swap(columns_, other.columns_);
        swap(values_, other.values_);
        return *this;
    }

    static Matrix identity(int size) {
        Matrix result(size, size);
        for (int k = 0; k < size; k++)
            result(k, k) = 1;
        return result;
    }

    int rows() const { return rows_; }
    int columns() const { return columns_; }
    double &operator()(int row, int column) { return values_[row * columns_ + column]; }
    double operator()(int row, int column) const { return values_[row * columns_ + column]; }

    void swap_rows(int a, int b) {
        for (int j = 0; a != b && j < columns_; j++)
            swap((*this)(a, j), (*this)(b, j));
    }

private:
    template <typename T> static void swap(T &a, T &b) {
        T old = a;
        a = b;
        b = old;
    }

    static double *allocate(int count) {
        double *values = new double[static_cast<size_t>(count)];
        for (int k = 0; k < count; k++)
            values[k] = 0;
        return values;
    }

    size_t bytes() const { return static_cast<size_t>(rows_ * columns_) * sizeof(double); }

    int rows_ = 0, columns_ = 0;
    double *values_ = nullptr;
};

// Matrices are held by reference in an expression, everything else by value.
template <typename E> struct Stored {
    using Type = E;
};
template <> struct Stored<Matrix> {
    using Type = const Matrix &;
};

struct Add {
    static double apply(double a, double b) { return a + b; }
};
struct Subtract {
    static double apply(double a, double b) { return a - b; }
};

template <typename Operation, typename L, typename R>
class Elementwise : public Expression<Elementwise<Operation, L, R>> {
public:
    Elementwise(const L &left, const R &right) : left_(left), right_(right) {}
    int rows() const { return left_.rows(); }
    int columns() const { return left_.columns(); }
    double operator()(int i, int j) const { return Operation::apply(left_(i, j), right_(i, j)); }

private:
    typename Stored<L>::Type left_;
    typename Stored<R>::Type right_;
};

template <typename E> class Scaled : public Expression<Scaled<E>> {
public:
    Scaled(double factor, const E &inner) : factor_(factor), inner_(inner) {}
    int rows() const { return inner_.rows(); }
    int columns() const { return inner_.columns(); }
    double operator()(int i, int j) const { return factor_ * inner_(i, j); }

private:
    double factor_;
    typename Stored<E>::Type inner_;
};

template <typename E> class Transposed : public Expression<Transposed<E>> {
public:
    explicit Transposed(const E &inner) : inner_(inner) {}
    int rows() const { return inner_.columns(); }
    int columns() const { return inner_.rows(); }
    double operator()(int i, int j) const { return inner_(j, i); }

private:
    typename Stored<E>::Type inner_;
};

template <typename E> class Part : public Expression<Part<E>> {
public:
    Part(const E &inner, int row, int column, int rows, int columns)
        : inner_(inner), row_(row), column_(column), rows_(rows), columns_(columns) {}
    int rows() const { return rows_; }
    int columns() const { return columns_; }
    double operator()(int i, int j) const { return inner_(row_ + i, column_ + j); }

private:
    typename Stored<E>::Type inner_;
    int row_, column_, rows_, columns_;
};

template <typename L, typename R>
Elementwise<Add, L, R> operator+(const Expression<L> &left, const Expression<R> &right) {
    return {left.self(), right.self()};
}

template <typename L, typename R>
Elementwise<Subtract, L, R> operator-(const Expression<L> &left, const Expression<R> &right) {
    return {left.self(), right.self()};
}

template <typename E> Scaled<E> operator*(double factor, const Expression<E> &inner) { return {factor, inner.self()}; }
template <typename E> Transposed<E> transpose(const Expression<E> &inner) { return Transposed<E>(inner.self()); }

template <typename E> Part<E> part(const Expression<E> &inner, int row, int column, int rows, int columns) {
    return {inner.self(), row, column, rows, columns};
}

// A product reads its operands many times, so it is computed at once.
template <typename L, typename R> Matrix operator*(const Expression<L> &left, const Expression<R> &right) {
    Matrix result(left.rows(), right.columns());
    for (int i = 0; i < left.rows(); i++)
        for (int k = 0; k < left.columns(); k++) {
            double factor = left(i, k);
            for (int j = 0; j < right.columns(); j++)
                result(i, j) += factor * right(k, j);
        }
    return result;
}

template <typename E> double norm(const Expression<E> &expression) {
    double sum = 0;
    for (int i = 0; i < expression.rows(); i++)
        for (int j = 0; j < expression.columns(); j++) {
            double value = expression(i, j);
            sum += value * value;
        }
    return sqrt(sum);
}

template <typename E> double trace(const Expression<E> &expression) {
    double sum = 0;
    for (int k = 0; k < expression.rows(); k++)
        sum += expression(k, k);
    return sum;
}

class Lu {
public:
    explicit Lu(const Matrix &matrix) : factors_(matrix), order_(new int[static_cast<size_t>(matrix.rows())]) {
        int size = matrix.rows();
        for (int k = 0; k < size; k++)
            order_[k] = k;
        for (int k = 0; k < size; k++) {
            choose_pivot(k);
            if (factors_(k, k) == 0) {
                singular_ = true;
                continue;
            }
            for (int i = k + 1; i < size; i++) {
                double factor = factors_(i, k) /= factors_(k, k);
                for (int j = k + 1; j < size; j++)
                    factors_(i, j) -= factor * factors_(k, j);
            }
        }
    }
    Lu(const Lu &) = delete;
    Lu &operator=(const Lu &) = delete;
    ~Lu() { delete[] order_; }

    bool singular() const { return singular_; }

    // The determinant is mantissa * 2^exponent, since it may leave the range of a double.
    double determinant(int &exponent) const {
        double mantissa = sign_;
        exponent = 0;
        for (int k = 0; k < factors_.rows(); k++) {
            mantissa *= factors_(k, k);
            for (; fabs(mantissa) >= 2; exponent++)
                mantissa /= 2;
            for (; mantissa != 0 && fabs(mantissa) < 1; exponent--)
                mantissa *= 2;
        }
        return mantissa;
    }

    Matrix solve(const Matrix &right) const {
        int size = factors_.rows();
        Matrix result(size, right.columns());
        for (int column = 0; column < right.columns(); column++) {
            for (int i = 0; i < size; i++) {
                double value = right(order_[i], column);
                for (int k = 0; k < i; k++)
                    value -= factors_(i, k) * result(k, column);
                result(i, column) = value;
            }
            for (int i = size - 1; i >= 0; i--) {
                double value = result(i, column);
                for (int k = i + 1; k < size; k++)
                    value -= factors_(i, k) * result(k, column);
                result(i, column) = value / factors_(i, i);
            }
        }
        return result;
    }

private:
    void choose_pivot(int k) {
        int best = k;
        for (int i = k + 1; i < factors_.rows(); i++)
            if (fabs(factors_(i, k)) > fabs(factors_(best, k)))
                best = i;
        if (best == k)
            return;
        factors_.swap_rows(k, best);
        int old = order_[k];
        order_[k] = order_[best];
        order_[best] = old;
        sign_ = -sign_;
    }

    Matrix factors_;
    int *order_;
    int sign_ = 1;
    bool singular_ = false;
};

// Householder reflections; q is square, r has the shape of the matrix.
struct Qr {
    Matrix q, r;

    explicit Qr(const Matrix &matrix) : q(Matrix::identity(matrix.rows())), r(matrix) {
        int rows = r.rows(), steps = r.columns() < rows ? r.columns() : rows - 1;
        for (int k = 0; k < steps; k++) {
            Matrix v = part(r, k, k, rows - k, 1);
            double length = norm(v);
            if (length == 0)
                continue;
            v(0, 0) += v(0, 0) < 0 ? -length : length;
            Matrix direction = (1 / norm(v)) * v;
            reflect(r, direction, k);
            reflect(q, direction, k);
        }
        q = transpose(q);
    }

    // Solves the least squares problem by back substitution.
    Matrix solve(const Matrix &right) const {
        Matrix projected = transpose(q) * right, result(r.columns(), right.columns());
        for (int column = 0; column < right.columns(); column++)
            for (int i = r.columns() - 1; i >= 0; i--) {
                double value = projected(i, column);
                for (int k = i + 1; k < r.columns(); k++)
                    value -= r(i, k) * result(k, column);
                result(i, column) = value / r(i, i);
            }
        return result;
    }

private:
    static void reflect(Matrix &target, const Matrix &direction, int first) {
        for (int column = 0; column < target.columns(); column++) {
            double product = 0;
            for (int i = 0; i < direction.rows(); i++)
                product += direction(i, 0) * target(first + i, column);
            for (int i = 0; i < direction.rows(); i++)
                target(first + i, column) -= 2 * product * direction(i, 0);
        }
    }
};

class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    double operator()() { // in [-1, 1)
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<double>(state_ >> 11) / 4503599627370496.0 - 1;
    }

    Matrix matrix(int rows, int columns) {
        Matrix result(rows, columns);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < columns; j++)
                result(i, j) = (*this)();
        return result;
    }

private:
    uint64_t state_;
};

static const char *verdict(double error) { return error < 1e-9 ? "ok" : "too large"; }

static void show_solve(Random &random, int size) {
    Matrix a = random.matrix(size, size) + 2.0 * Matrix::identity(size), x = random.matrix(size, 2), b = a * x;
    Lu lu(a);
    int exponent;
    double mantissa = lu.determinant(exponent);
    Matrix inverse = lu.solve(Matrix::identity(size));
    printf("lu %d: error %s, inverse %s, determinant %.6f * 2^%d, inverse trace %.5f\n", size,
           verdict(norm(lu.solve(b) - x)), verdict(norm(a * inverse - Matrix::identity(size))), mantissa, exponent,
           trace(inverse));
}

static void show_fit(Random &random, int points, int degree) {
    Matrix a(points, degree + 1), b(points, 1);
    for (int i = 0; i < points; i++) {
        double x = 2.0 * i / (points - 1) - 1, power = 1;
        for (int j = 0; j <= degree; j++, power *= x)
            a(i, j) = power;
        b(i, 0) = 1 - 2 * x + 0.5 * x * x * x + 0.01 * random();
    }
    Qr qr(a);
    Matrix coefficients = qr.solve(b), residual = a * coefficients - b;
    printf("fit of %d points: q %s, qr %s, orthogonal %s, residual %.5f, coefficients", points,
           verdict(norm(transpose(qr.q) * qr.q - Matrix::identity(points))), verdict(norm(qr.q * qr.r - a)),
           verdict(norm(transpose(a) * residual)), norm(residual));
    for (int j = 0; j <= degree; j++)
        printf(" %.4f", coefficients(j, 0));
    printf("\n");
}

// Eigenvalues of a symmetric matrix by the shifted QR iteration.
static void show_eigenvalues(Random &random, int size) {
    Matrix base = random.matrix(size, size), a = 0.5 * (base + transpose(base)), original = a;
    double shifts = 0;
    int iterations = 0;
    Matrix values(size, 1);
    for (int active = size; active > 0;) {
        double off = 0;
        for (int j = 0; j + 1 < active; j++)
            off += fabs(a(active - 1, j));
        if (off < 1e-11) {
            values(active - 1, 0) = a(active - 1, active - 1);
            active--;
            a = part(a, 0, 0, active, active);
            continue;
        }
        double shift = a(active - 1, active - 1);
        Qr qr(a - shift * Matrix::identity(active));
        a = qr.r * qr.q + shift * Matrix::identity(active);
        shifts += fabs(shift);
        iterations++;
    }
    double sum = 0, largest = 0;
    for (int k = 0; k < size; k++) {
        sum += values(k, 0);
        largest = fabs(values(k, 0)) > fabs(largest) ? values(k, 0) : largest;
    }
    printf("eigenvalues %d: trace %s, norm %s, largest %.6f, %s\n", size, verdict(fabs(sum - trace(original))),
           verdict(fabs(norm(values) - norm(original))), largest,
           iterations < 6 * size && shifts > 0 ? "converged" : "slow");
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int scale = strcmp(size, "large") == 0 ? 6 : strcmp(size, "medium") == 0 ? 3 : 1;
    Random random(1234567);
    for (int k = 1; k <= 3; k++)
        show_solve(random, 6 * k * scale);
    for (int k = 1; k <= 2; k++)
        show_fit(random, 12 * k * scale, 3);
    show_eigenvalues(random, 8 * scale);

    Matrix a = random.matrix(4, 3), b = random.matrix(4, 3);
    Matrix c = transpose(a + 2.0 * b) * (a - 0.5 * (b + a)) + 3.0 * Matrix::identity(3);
    for (int i = 0; i < 3; i++)
        printf("%9.5f %9.5f %9.5f\n", c(i, 0), c(i, 1), c(i, 2));
    printf("singular %d\n", Lu(part(transpose(a) * b, 0, 0, 2, 2) - part(transpose(a) * b, 0, 0, 2, 2)).singular());
    return 0;
}
