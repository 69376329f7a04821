// editdistance: Levenshtein distance four ways, longest common subsequence by Hirschberg, Smith-Waterman with affine gaps

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t state = 17u;

static int random_below(int bound)
{
    state = state * 747796405u + 2891336453u;
    return (int)((state >> 12) % (uint32_t)bound);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        puts("editdistance: out of memory");
        exit(1);
    }
    return memory;
}

static int min3(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

static int max2(int a, int b)
{
    return a > b ? a : b;
}

static char *random_sequence(int length)
{
    char *s = allocate((size_t)length + 1, 1);
    for (int i = 0; i < length; i++)
        s[i] = "ACGT"[random_below(4)];
    return s;
}

/* A copy in which about one letter in `rarity` was replaced, left out or doubled. */
static char *mutate(const char *s, int rarity)
{
    size_t length = strlen(s);
    char *copy = allocate(2 * length + 1, 1), *out = copy;
    for (; *s != '\0'; s++) {
        int event = random_below(3 * rarity);
        if (event == 0)
            *out++ = "ACGT"[random_below(4)];
        else if (event != 1)
            *out++ = *s;
        if (event == 2)
            *out++ = *s;
    }
    return copy;
}

/* ---- Levenshtein ---- */

/* Fills the whole table and walks back through it, counting what was done to a to get b. */
static int distance_with_edits(const char *a, int n, const char *b, int m, int edits[3])
{
    int width = m + 1;
    int *d = allocate((size_t)(n + 1) * (size_t)width, sizeof(int));
    for (int i = 0; i <= n; i++)
        d[i * width] = i;
    for (int j = 0; j <= m; j++)
        d[j] = j;
    for (int i = 1; i <= n; i++)
        for (int j = 1; j <= m; j++)
            d[i * width + j] = min3(d[(i - 1) * width + j] + 1, d[i * width + j - 1] + 1,
                                    d[(i - 1) * width + j - 1] + (a[i - 1] != b[j - 1]));
    int i = n, j = m, distance = d[n * width + m];
    edits[0] = edits[1] = edits[2] = 0;
    while (i > 0 || j > 0) {
        int here = d[i * width + j];
        if (i > 0 && j > 0 && here == d[(i - 1) * width + j - 1] + (a[i - 1] != b[j - 1])) {
            edits[0] += a[--i] != b[--j];
        } else if (i > 0 && here == d[(i - 1) * width + j] + 1) {
            edits[1]++;
            i--;
        } else {
            edits[2]++;
            j--;
        }
    }
    free(d);
    return distance;
}

static int distance_two_rows(const char *a, int n, const char *b, int m)
{
    int *row = allocate((size_t)m + 1, sizeof(int));
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
            corner = above;
        }
    }
    int distance = row[m];
    free(row);
    return distance;
}

/* Only cells within `limit` of the diagonal; limit + 1 when the distance is larger. */
static int distance_in_band(const char *a, int n, const char *b, int m, int limit)
{
    if (abs(n - m) > limit)
        return limit + 1;
    int *row = allocate((size_t)m + 2, sizeof(int)), beyond = limit + 1;
    for (int j = 0; j <= m; j++)
        row[j] = j <= limit ? j : beyond;
    for (int i = 1; i <= n; i++) {
        int from = max2(1, i - limit), to = i + limit < m ? i + limit : m;
        int corner = row[from - 1];
        row[from - 1] = from == 1 && i <= limit ? i : beyond;
        for (int j = from; j <= to; j++) {
            int above = j == i + limit ? beyond : row[j];
            int best = min3(above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1]));
            corner = row[j];
            row[j] = best < beyond ? best : beyond;
        }
    }
    int distance = row[m];
    free(row);
    return distance;
}

/* The limit doubles until the distance fits. */
static int distance_doubling(const char *a, int n, const char *b, int m)
{
    int limit = 4;
    for (;; limit *= 2) {
        int distance = distance_in_band(a, n, b, m, limit);
        if (distance <= limit)
            return distance;
    }
}

/* Myers: the table's vertical differences as bits, 64 rows of the pattern at a time. */
static int distance_bit_parallel(const char *a, int n, const char *b, int m)
{
    int blocks = (n + 63) / 64, score = n;
    uint64_t(*equal)[4] = allocate((size_t)blocks, sizeof *equal);
    uint64_t *up = allocate((size_t)blocks, sizeof(uint64_t)), *down = allocate((size_t)blocks, sizeof(uint64_t));
    uint64_t last = (uint64_t)1 << ((n - 1) % 64);
    static const char letters[] = "ACGT";
    for (int i = 0; i < n; i++)
        equal[i / 64][strchr(letters, a[i]) - letters] |= (uint64_t)1 << (i % 64);
    for (int k = 0; k < blocks; k++)
        up[k] = ~(uint64_t)0;
    for (int j = 0; j < m; j++) {
        int column = (int)(strchr(letters, b[j]) - letters), carry = 1;
        for (int k = 0; k < blocks; k++) {
            uint64_t eq = equal[k][column], high = k == blocks - 1 ? last : (uint64_t)1 << 63;
            uint64_t vertical = eq | down[k];
            if (carry < 0)
                eq |= 1;
            uint64_t horizontal = (((eq & up[k]) + up[k]) ^ up[k]) | eq;
            uint64_t plus = down[k] | ~(horizontal | up[k]), minus = up[k] & horizontal;
            int out = (plus & high ? 1 : 0) - (minus & high ? 1 : 0);
            plus = plus << 1 | (carry > 0);
            minus = minus << 1 | (carry < 0);
            up[k] = minus | ~(vertical | plus);
            down[k] = plus & vertical;
            carry = out;
        }
        score += carry;
    }
    free(equal);
    free(up);
    free(down);
    return score;
}

/* ---- longest common subsequence ---- */

/* lengths[j] is the length for a and b[0..j); with backwards set, both are read from their ends. */
static void common_lengths(const char *a, int n, const char *b, int m, bool backwards, int *lengths)
{
    for (int j = 0; j <= m; j++)
        lengths[j] = 0;
    for (int i = 0; i < n; i++) {
        int corner = 0;
        char letter = backwards ? a[n - 1 - i] : a[i];
        for (int j = 1; j <= m; j++) {
            int above = lengths[j];
            if (letter == (backwards ? b[m - j] : b[j - 1]))
                lengths[j] = corner + 1;
            else
                lengths[j] = max2(above, lengths[j - 1]);
            corner = above;
        }
    }
}

/* Hirschberg: cut a in half, find where b must be cut, solve the halves; memory stays linear. Returns the end of out. */
static char *common_subsequence(const char *a, int n, const char *b, int m, char *out)
{
    if (n == 0 || m == 0)
        return out;
    if (n == 1) {
        if (memchr(b, a[0], (size_t)m) != NULL)
            *out++ = a[0];
        return out;
    }
    int half = n / 2, cut = 0, best = -1;
    int *before = allocate((size_t)m + 1, sizeof(int)), *after = allocate((size_t)m + 1, sizeof(int));
    common_lengths(a, half, b, m, false, before);
    common_lengths(a + half, n - half, b, m, true, after);
    for (int j = 0; j <= m; j++) {
        if (before[j] + after[m - j] > best) {
            best = before[j] + after[m - j];
            cut = j;
        }
    }
    free(before);
    free(after);
    out = common_subsequence(a, half, b, cut, out);
    return common_subsequence(a + half, n - half, b + cut, m - cut, out);
}

static bool is_subsequence(const char *part, const char *whole)
{
    while (*part != '\0' && *whole != '\0') {
        if (*part == *whole)
            part++;
        whole++;
    }
    return *part == '\0';
}

/* ---- Smith-Waterman with affine gaps ---- */

enum { MATCH = 5, MISMATCH = -6, OPEN = -14, EXTEND = -4 };

typedef struct {
    int score, from_a, to_a, from_b, to_b;
    int matches, gaps; /* gaps counts letters opposite a gap */
} Alignment;

/* Three scores a cell: ending in a pair, in a gap in b, in a gap in a; the trace says where each came from. */
static Alignment align_locally(const char *a, int n, const char *b, int m)
{
    enum { STOP, PAIR, GAP_B, GAP_A };
    enum { LOWEST = -1000000 };
    int width = m + 1;
    int *pair = allocate((size_t)width, sizeof(int)), *gap_b = allocate((size_t)width, sizeof(int));
    unsigned char *trace = allocate((size_t)(n + 1) * (size_t)width, 1);
    Alignment best = {0, 0, 0, 0, 0, 0, 0};
    for (int j = 0; j <= m; j++)
        gap_b[j] = LOWEST;
    for (int i = 1; i <= n; i++) {
        int corner = pair[0], gap_a = LOWEST;
        for (int j = 1; j <= m; j++) {
            unsigned char *t = &trace[i * width + j];
            int open_b = pair[j] + OPEN, extend_b = gap_b[j] + EXTEND;
            int open_a = pair[j - 1] + OPEN, extend_a = gap_a + EXTEND;
            gap_b[j] = max2(open_b, extend_b);
            gap_a = max2(open_a, extend_a);
            int here = corner + (a[i - 1] == b[j - 1] ? MATCH : MISMATCH);
            *t = PAIR;
            if (gap_b[j] > here) {
                here = gap_b[j];
                *t = GAP_B;
            }
            if (gap_a > here) {
                here = gap_a;
                *t = GAP_A;
            }
            if (here <= 0) {
                here = 0;
                *t = STOP;
            }
            if (extend_b > open_b)
                *t |= 4;
            if (extend_a > open_a)
                *t |= 8;
            corner = pair[j];
            pair[j] = here;
            if (here > best.score) {
                best.score = here;
                best.to_a = i;
                best.to_b = j;
            }
        }
    }
    int i = best.to_a, j = best.to_b;
    for (int from; (from = trace[i * width + j] & 3) != STOP;) {
        if (from == PAIR) {
            best.matches += a[--i] == b[--j];
            continue;
        }
        bool more;
        do {
            more = (trace[i * width + j] & (from == GAP_B ? 4 : 8)) != 0;
            if (from == GAP_B)
                i--;
            else
                j--;
            best.gaps++;
        } while (more);
    }
    best.from_a = i;
    best.from_b = j;
    free(pair);
    free(gap_b);
    free(trace);
    return best;
}

static uint32_t checksum(const char *s)
{
    uint32_t hash = 5381;
    for (; *s != '\0'; s++)
        hash = hash * 33u ^ (unsigned char)*s;
    return hash;
}

static void compare_distances(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), edits[3];
    int distance = distance_with_edits(a, n, b, m, edits);
    bool agree = distance == distance_two_rows(a, n, b, m) && distance == distance_doubling(a, n, b, m) &&
                 distance == distance_bit_parallel(a, n, b, m) && distance == edits[0] + edits[1] + edits[2];
    printf("%d and %d letters (%08x): distance %d = %d replaced + %d removed + %d added, four ways %s\n", n, m,
           (unsigned)checksum(b), distance, edits[0], edits[1], edits[2], agree ? "agree" : "DISAGREE");
}

static void find_common(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b);
    char *common = allocate((size_t)n + 1, 1);
    int *lengths = allocate((size_t)m + 1, sizeof(int));
    *common_subsequence(a, n, b, m, common) = '\0';
    common_lengths(a, n, b, m, false, lengths);
    bool fine = is_subsequence(common, a) && is_subsequence(common, b) && (int)strlen(common) == lengths[m];
    printf("common subsequence of %d letters, checksum %08x, %s: %.40s\n", (int)strlen(common), (unsigned)checksum(common),
           fine ? "longest" : "WRONG", common);
    free(common);
    free(lengths);
}

/* A mutated piece of a, with a stretch cut out, is hidden in b. */
static void find_hidden(const char *a, int length)
{
    int piece = length / 2, from = length / 5;
    char *b = random_sequence(length), *hidden = allocate((size_t)piece + 1, 1);
    memcpy(hidden, a + from, (size_t)piece / 2);
    memcpy(hidden + piece / 2, a + from + piece / 2 + 12, (size_t)(piece / 2 - 12));
    char *mutated = mutate(hidden, 25);
    memcpy(b + length / 4, mutated, strlen(mutated));
    Alignment best = align_locally(a, length, b, length);
    printf("alignment: score %d, a[%d..%d) with b[%d..%d), %d matches, %d opposite gaps\n", best.score, best.from_a,
           best.to_a, best.from_b, best.to_b, best.matches, best.gaps);
    free(b);
    free(hidden);
    free(mutated);
}

int main(int argc, char **argv)
{
    int length = 300;
    if (argc > 1) {
        if (strcmp(argv[1], "medium") == 0) {
            length = 1200;
        } else if (strcmp(argv[1], "large") == 0) {
            length = 3000;
        } else if (strcmp(argv[1], "small") != 0) {
            puts("usage: editdistance [small|medium|large]");
            return 2;
        }
    }
    char *a = random_sequence(length), *other = random_sequence(length - 37);
    char *near_copy = mutate(a, 12), *far_copy = mutate(a, 2);
    compare_distances(a, near_copy);
    compare_distances(a, far_copy);
    compare_distances(a, other);
    find_common(a, far_copy);
    find_hidden(a, length);
    free(a);
    free(near_copy);
    free(far_copy);
    free(other);
    return 0;
}
