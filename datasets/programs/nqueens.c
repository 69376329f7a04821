// nqueens: places n queens on an n by n board, counting with bitmasks and listing by backtracking
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MAX_BOARD 16

// Every solution of the rows still free. A set bit in `columns`, `left` or `right` is an attacked square of this row.
static long count_solutions(uint32_t full, uint32_t columns, uint32_t left, uint32_t right) {
    if (columns == full)
        return 1;
    long solutions = 0;
    uint32_t candidates = full & ~(columns | left | right);
    while (candidates != 0) {
        uint32_t square = candidates & -candidates;
        candidates ^= square;
        solutions += count_solutions(full, columns | square, (left | square) << 1, (right | square) >> 1);
    }
    return solutions;
}

static int is_safe(const int *queen, int row, int column) {
    for (int above = 0; above < row; above++) {
        int distance = row - above;
        int other = queen[above];
        if (other == column || other == column - distance || other == column + distance)
            return 0;
    }
    return 1;
}

// Finds the lexicographically first solution without recursion; returns the number of squares tried.
static long first_solution(int n, int *queen) {
    long tried = 0;
    int row = 0;
    queen[0] = -1;
    while (row >= 0 && row < n) {
        int column = queen[row] + 1;
        while (column < n && !is_safe(queen, row, column)) {
            column++;
            tried++;
        }
        if (column < n) {
            queen[row++] = column;
            if (row < n)
                queen[row] = -1;
        } else {
            row--;
        }
    }
    return row == n ? tried : -tried;
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int largest = strcmp(size, "large") == 0 ? 14 : strcmp(size, "medium") == 0 ? 12 : 9;
    for (int n = 4; n <= largest; n++) {
        int queen[MAX_BOARD];
        long solutions = count_solutions((1u << n) - 1, 0, 0, 0);
        long tried = first_solution(n, queen);
        printf("n=%d solutions=%ld tried=%ld first=", n, solutions, tried);
        for (int row = 0; row < n; row++)
            printf("%d%s", queen[row], row + 1 < n ? "," : "\n");
    }
    return 0;
}
