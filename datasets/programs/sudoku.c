// sudoku: solves sudoku puzzles as an exact cover with dancing links, and again by constraint propagation
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CELLS 81
#define COLUMNS 324 // cell filled, digit in row, digit in column, digit in box
#define ROWS 729
#define ALL_DIGITS 0x1ff

// ---- Dancing links -------------------------------------------------------------------------------------------------

typedef struct Node {
    struct Node *left, *right, *up, *down;
    struct Node *header;
    int size; // of the column, in headers only
    int row;
} Node;

typedef struct {
    Node root;
    Node headers[COLUMNS];
    Node nodes[ROWS * 4];
    Node *first_of_row[ROWS];
    int chosen[CELLS];
    int solution[CELLS];
    int solutions;
    long updates;
} Cover;

static void append_to_column(Node *header, Node *node) {
    node->header = header;
    node->up = header->up;
    node->down = header;
    header->up->down = node;
    header->up = node;
    header->size++;
}

static void build_cover(Cover *cover) {
    Node *root = &cover->root;
    root->left = root->right = root;
    for (int c = 0; c < COLUMNS; c++) {
        Node *header = &cover->headers[c];
        header->up = header->down = header;
        header->size = 0;
        header->left = root->left;
        header->right = root;
        root->left->right = header;
        root->left = header;
    }
    for (int row = 0; row < ROWS; row++) {
        int cell = row / 9, digit = row % 9;
        int y = cell / 9, x = cell % 9, box = y / 3 * 3 + x / 3;
        int column[4] = {cell, 81 + y * 9 + digit, 162 + x * 9 + digit, 243 + box * 9 + digit};
        Node *node = &cover->nodes[row * 4];
        cover->first_of_row[row] = node;
        for (int k = 0; k < 4; k++) {
            node[k].row = row;
            node[k].right = &node[(k + 1) % 4];
            node[k].left = &node[(k + 3) % 4];
            append_to_column(&cover->headers[column[k]], &node[k]);
        }
    }
    cover->solutions = 0;
    cover->updates = 0;
}

static void cover_column(Cover *cover, Node *header) {
    header->left->right = header->right;
    header->right->left = header->left;
    for (Node *row = header->down; row != header; row = row->down) {
        for (Node *node = row->right; node != row; node = node->right) {
            node->up->down = node->down;
            node->down->up = node->up;
            node->header->size--;
            cover->updates++;
        }
    }
}

static void uncover_column(Node *header) {
    for (Node *row = header->up; row != header; row = row->up) {
        for (Node *node = row->left; node != row; node = node->left) {
            node->header->size++;
            node->up->down = node;
            node->down->up = node;
        }
    }
    header->left->right = header;
    header->right->left = header;
}

static Node *smallest_column(Cover *cover) {
    Node *best = NULL;
    for (Node *header = cover->root.right; header != &cover->root; header = header->right)
        if (best == NULL || header->size < best->size)
            best = header;
    return best;
}

static void search_cover(Cover *cover, int depth, int limit) {
    if (cover->root.right == &cover->root) {
        if (cover->solutions++ == 0)
            for (int k = 0; k < depth; k++)
                cover->solution[cover->chosen[k] / 9] = cover->chosen[k] % 9 + 1;
        return;
    }
    Node *header = smallest_column(cover);
    if (header->size == 0)
        return;
    cover_column(cover, header);
    for (Node *row = header->down; row != header && cover->solutions < limit; row = row->down) {
        cover->chosen[depth] = row->row;
        for (Node *node = row->right; node != row; node = node->right)
            cover_column(cover, node->header);
        search_cover(cover, depth + 1, limit);
        for (Node *node = row->left; node != row; node = node->left)
            uncover_column(node->header);
    }
    uncover_column(header);
}

// Returns the number of solutions, counted up to `limit`; the first one is left in cover->solution.
static int solve_by_cover(Cover *cover, const int *givens, int limit) {
    build_cover(cover);
    int depth = 0;
    for (int cell = 0; cell < CELLS; cell++) {
        if (givens[cell] == 0)
            continue;
        int row = cell * 9 + givens[cell] - 1;
        cover->chosen[depth++] = row;
        Node *first = cover->first_of_row[row];
        cover_column(cover, first->header);
        for (Node *node = first->right; node != first; node = node->right)
            cover_column(cover, node->header);
    }
    search_cover(cover, depth, limit);
    return cover->solutions;
}

// ---- Constraint propagation ----------------------------------------------------------------------------------------

typedef struct {
    uint16_t candidates[CELLS];
} Board;

static uint8_t peers[CELLS][20];
static uint8_t units[27][9];
static uint8_t units_of[CELLS][3];

static void build_units(void) {
    for (int k = 0; k < 9; k++)
        for (int i = 0; i < 9; i++) {
            units[k][i] = (uint8_t)(k * 9 + i);
            units[9 + k][i] = (uint8_t)(i * 9 + k);
            units[18 + k][i] = (uint8_t)((k / 3 * 3 + i / 3) * 9 + k % 3 * 3 + i % 3);
        }
    for (int cell = 0; cell < CELLS; cell++) {
        int y = cell / 9, x = cell % 9, count = 0;
        units_of[cell][0] = (uint8_t)y;
        units_of[cell][1] = (uint8_t)(9 + x);
        units_of[cell][2] = (uint8_t)(18 + y / 3 * 3 + x / 3);
        for (int other = 0; other < CELLS; other++) {
            int oy = other / 9, ox = other % 9;
            bool same_box = oy / 3 == y / 3 && ox / 3 == x / 3;
            if (other != cell && (oy == y || ox == x || same_box))
                peers[cell][count++] = (uint8_t)other;
        }
    }
}

static int count_candidates(unsigned set) {
    int count = 0;
    for (; set != 0; set &= set - 1)
        count++;
    return count;
}

static int digit_of(unsigned set) {
    int digit = 1;
    while ((set & 1) == 0) {
        set >>= 1;
        digit++;
    }
    return digit;
}

static bool assign(Board *board, int cell, unsigned digit);

// Removes one candidate and follows the consequences; false when the board has become impossible.
static bool eliminate(Board *board, int cell, unsigned digit) {
    if ((board->candidates[cell] & digit) == 0)
        return true;
    board->candidates[cell] &= (uint16_t)~digit;
    unsigned left = board->candidates[cell];
    if (left == 0)
        return false;
    if ((left & (left - 1)) == 0)
        for (int k = 0; k < 20; k++)
            if (!eliminate(board, peers[cell][k], left))
                return false;
    for (int u = 0; u < 3; u++) {
        const uint8_t *unit = units[units_of[cell][u]];
        int places = 0, place = 0;
        for (int k = 0; k < 9; k++)
            if (board->candidates[unit[k]] & digit) {
                places++;
                place = unit[k];
            }
        if (places == 0 || (places == 1 && !assign(board, place, digit)))
            return false;
    }
    return true;
}

static bool assign(Board *board, int cell, unsigned digit) {
    unsigned others = board->candidates[cell] & ~digit;
    while (others != 0) {
        unsigned other = others & -others;
        others ^= other;
        if (!eliminate(board, cell, other))
            return false;
    }
    return (board->candidates[cell] & digit) != 0;
}

static bool search_board(Board *board, long *guesses) {
    int best = -1, best_count = 10;
    for (int cell = 0; cell < CELLS; cell++) {
        int count = count_candidates(board->candidates[cell]);
        if (count > 1 && count < best_count) {
            best = cell;
            best_count = count;
        }
    }
    if (best < 0)
        return true;
    for (unsigned digit = 1; digit < ALL_DIGITS; digit <<= 1) {
        if ((board->candidates[best] & digit) == 0)
            continue;
        Board copy = *board;
        (*guesses)++;
        if (assign(&copy, best, digit) && search_board(&copy, guesses)) {
            *board = copy;
            return true;
        }
    }
    return false;
}

static bool solve_by_propagation(const int *givens, int *solution, long *guesses) {
    Board board;
    for (int cell = 0; cell < CELLS; cell++)
        board.candidates[cell] = ALL_DIGITS;
    for (int cell = 0; cell < CELLS; cell++)
        if (givens[cell] != 0 && !assign(&board, cell, 1u << (givens[cell] - 1)))
            return false;
    if (!search_board(&board, guesses))
        return false;
    for (int cell = 0; cell < CELLS; cell++)
        solution[cell] = digit_of(board.candidates[cell]);
    return true;
}

// ---- Puzzles -------------------------------------------------------------------------------------------------------

static uint32_t random_state = 20240521;

static int random_below(int bound) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)bound);
}

static void shuffle(int *values, int count) {
    for (int k = count - 1; k > 0; k--) {
        int other = random_below(k + 1);
        int swap = values[k];
        values[k] = values[other];
        values[other] = swap;
    }
}

// A solved board: the cyclic pattern with rows, columns and digits permuted in ways that keep it valid.
static void random_solution(int *cells) {
    int rows[9], columns[9], digits[9];
    for (int axis = 0; axis < 2; axis++) {
        int *target = axis == 0 ? rows : columns;
        int band[3] = {0, 1, 2};
        shuffle(band, 3);
        for (int b = 0; b < 3; b++) {
            int line[3] = {0, 1, 2};
            shuffle(line, 3);
            for (int k = 0; k < 3; k++)
                target[b * 3 + k] = band[b] * 3 + line[k];
        }
    }
    for (int d = 0; d < 9; d++)
        digits[d] = d + 1;
    shuffle(digits, 9);
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 9; x++)
            cells[y * 9 + x] = digits[(rows[y] * 3 + rows[y] / 3 + columns[x]) % 9];
}

// Takes givens away, in random order, for as long as the solution stays unique.
static int dig_puzzle(Cover *cover, int *cells, int attempts) {
    int order[CELLS], givens = CELLS;
    for (int k = 0; k < CELLS; k++)
        order[k] = k;
    shuffle(order, CELLS);
    for (int k = 0; k < attempts; k++) {
        int cell = order[k], digit = cells[cell];
        cells[cell] = 0;
        if (solve_by_cover(cover, cells, 2) == 1)
            givens--;
        else
            cells[cell] = digit;
    }
    return givens;
}

static void print_line(const char *label, const int *cells) {
    printf("%s", label);
    for (int k = 0; k < CELLS; k++)
        putchar(cells[k] == 0 ? '.' : '0' + cells[k]);
    putchar('\n');
}

static uint32_t hash_cells(uint32_t hash, const int *cells) {
    for (int k = 0; k < CELLS; k++)
        hash = (hash ^ (uint32_t)cells[k]) * 16777619u;
    return hash;
}

static const char *const known_puzzles[] = {
    "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79",
    "8..........36......7..9.2...5...7.......457.....1...3...1....68..85...1..9....4..",
    "..............3.85..1.2.......5.7.....4...1...9.......5......73..2.1........4...9",
};

static int solve_both(Cover *cover, const int *givens, long *guesses, int *solution) {
    if (solve_by_cover(cover, givens, 2) != 1)
        return 1;
    if (!solve_by_propagation(givens, solution, guesses))
        return 1;
    return memcmp(solution, cover->solution, sizeof cover->solution) != 0;
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    bool large = strcmp(size, "large") == 0, medium = strcmp(size, "medium") == 0;
    int known = large ? 3 : medium ? 2 : 1, generated = large ? 200 : medium ? 20 : 1;
    Cover *cover = malloc(sizeof *cover);
    if (cover == NULL)
        return 1;
    build_units();

    int givens[CELLS], solution[CELLS], failures = 0;
    for (int p = 0; p < known; p++) {
        for (int k = 0; k < CELLS; k++)
            givens[k] = known_puzzles[p][k] == '.' ? 0 : known_puzzles[p][k] - '0';
        long guesses = 0;
        failures += solve_both(cover, givens, &guesses, solution);
        print_line("known  ", givens);
        print_line("solved ", solution);
        printf("link updates %ld, guesses %ld\n", cover->updates, guesses);
    }

    uint32_t hash = 2166136261u;
    long updates = 0, guesses = 0, clues = 0;
    for (int p = 0; p < generated; p++) {
        random_solution(givens);
        clues += dig_puzzle(cover, givens, large || medium ? CELLS : 24);
        failures += solve_both(cover, givens, &guesses, solution);
        updates += cover->updates;
        hash = hash_cells(hash_cells(hash, givens), solution);
    }
    print_line("last   ", givens);
    printf("generated %d, clues %ld, link updates %ld, guesses %ld, failures %d, hash %08x\n", generated, clues,
           updates, guesses, failures, (unsigned)hash);
    free(cover);
    return 0;
}
