// life: runs Conway's game of life on a torus, one cell at a time and 64 cells at a time, and compares the two
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int width; // a multiple of 64
    int height;
    unsigned char *cells;
    unsigned char *next;
} Grid;

typedef struct {
    int words; // per row
    int height;
    uint64_t *cells;
    uint64_t *next;
} BitGrid;

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_word(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static int count_neighbours(const Grid *grid, int x, int y) {
    int count = 0;
    for (int dy = -1; dy <= 1; dy++) {
        for (int dx = -1; dx <= 1; dx++) {
            if (dx == 0 && dy == 0)
                continue;
            int nx = (x + dx + grid->width) % grid->width;
            int ny = (y + dy + grid->height) % grid->height;
            count += grid->cells[ny * grid->width + nx];
        }
    }
    return count;
}

static void step_cells(Grid *grid) {
    for (int y = 0; y < grid->height; y++) {
        for (int x = 0; x < grid->width; x++) {
            int neighbours = count_neighbours(grid, x, y);
            bool alive = grid->cells[y * grid->width + x];
            grid->next[y * grid->width + x] = neighbours == 3 || (alive && neighbours == 2);
        }
    }
    unsigned char *swap = grid->cells;
    grid->cells = grid->next;
    grid->next = swap;
}

// Bit k of the results is the west (east) neighbour of bit k of word `w` in `row`.
static uint64_t west_of(const uint64_t *row, int words, int w) {
    return row[w] << 1 | row[(w + words - 1) % words] >> 63;
}

static uint64_t east_of(const uint64_t *row, int words, int w) {
    return row[w] >> 1 | row[(w + 1) % words] << 63;
}

// Adds one bit to each of 64 counters; counter[k] holds bit k of them all.
static void add_bit(uint64_t counter[4], uint64_t bit) {
    for (int k = 0; k < 4; k++) {
        uint64_t carry = counter[k] & bit;
        counter[k] ^= bit;
        bit = carry;
    }
}

static void step_words(BitGrid *grid) {
    int words = grid->words;
    for (int y = 0; y < grid->height; y++) {
        const uint64_t *above = grid->cells + (size_t)((y + grid->height - 1) % grid->height) * words;
        const uint64_t *here = grid->cells + (size_t)y * words;
        const uint64_t *below = grid->cells + (size_t)((y + 1) % grid->height) * words;
        for (int w = 0; w < words; w++) {
            uint64_t counter[4] = {0, 0, 0, 0};
            add_bit(counter, west_of(above, words, w));
            add_bit(counter, above[w]);
            add_bit(counter, east_of(above, words, w));
            add_bit(counter, west_of(here, words, w));
            add_bit(counter, east_of(here, words, w));
            add_bit(counter, west_of(below, words, w));
            add_bit(counter, below[w]);
            add_bit(counter, east_of(below, words, w));
            uint64_t two_or_three = counter[1] & ~counter[2] & ~counter[3];
            grid->next[(size_t)y * words + w] = two_or_three & (counter[0] | here[w]);
        }
    }
    uint64_t *swap = grid->cells;
    grid->cells = grid->next;
    grid->next = swap;
}

static int count_bits(uint64_t word) {
    int count = 0;
    for (; word != 0; word &= word - 1)
        count++;
    return count;
}

static int population(const BitGrid *grid) {
    int alive = 0;
    for (int k = 0; k < grid->words * grid->height; k++)
        alive += count_bits(grid->cells[k]);
    return alive;
}

static uint64_t checksum(const BitGrid *grid) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int k = 0; k < grid->words * grid->height; k++)
        hash = (hash ^ grid->cells[k]) * 0x100000001b3u;
    return hash;
}

static int count_differences(const Grid *grid, const BitGrid *bits) {
    int differences = 0;
    for (int y = 0; y < grid->height; y++)
        for (int x = 0; x < grid->width; x++) {
            int bit = bits->cells[(size_t)y * bits->words + x / 64] >> (x % 64) & 1;
            differences += bit != grid->cells[y * grid->width + x];
        }
    return differences;
}

static void set_cell(Grid *grid, BitGrid *bits, int x, int y) {
    grid->cells[y * grid->width + x] = 1;
    bits->cells[(size_t)y * bits->words + x / 64] |= (uint64_t)1 << (x % 64);
}

static void place(Grid *grid, BitGrid *bits, int x, int y, const char *pattern) {
    int column = x;
    for (; *pattern; pattern++) {
        if (*pattern == '/') {
            y++;
            column = x;
            continue;
        }
        if (*pattern == 'O')
            set_cell(grid, bits, column, y);
        column++;
    }
}

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) {
        puts("out of memory");
        exit(1);
    }
    return memory;
}

static void run(const char *name, const char *pattern, int width, int height, int generations) {
    Grid grid = {width, height, allocate((size_t)width * height, 1), allocate((size_t)width * height, 1)};
    size_t words = (size_t)width / 64;
    BitGrid bits = {width / 64, height, allocate(words * height, 8), allocate(words * height, 8)};
    if (pattern != NULL) {
        place(&grid, &bits, width / 2, height / 2, pattern);
    } else {
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                if (random_word() % 3 == 0)
                    set_cell(&grid, &bits, x, y);
    }

    int start = population(&bits), peak = start;
    for (int generation = 0; generation < generations; generation++) {
        step_cells(&grid);
        step_words(&bits);
        int alive = population(&bits);
        peak = alive > peak ? alive : peak;
    }
    printf("%s: %dx%d after %d: start %d peak %d end %d differences %d hash %016llx\n", name, width, height,
           generations, start, peak, population(&bits), count_differences(&grid, &bits),
           (unsigned long long)checksum(&bits));
    free(grid.cells);
    free(grid.next);
    free(bits.cells);
    free(bits.next);
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int scale = strcmp(size, "large") == 0 ? 32 : strcmp(size, "medium") == 0 ? 4 : 1;
    run("glider", ".O./..O/OOO", 64, 24, 12 * scale);
    run("r-pentomino", ".OO/OO./.O.", 64, 64, 10 * scale);
    run("acorn", ".O...../...O.../OO..OOO", 128, 48, 6 * scale);
    run("soup", NULL, 64 * scale, 24, 12 * scale);
    return 0;
}
