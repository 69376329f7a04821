// strsearch: string search six ways (naive, KMP, Horspool, Rabin-Karp, shift-and, Aho-Corasick), which must agree

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATTERNS 24
#define MAX_LENGTH 64

/* How often a pattern occurs, and a hash over the places. */
typedef struct {
    int count;
    uint32_t places;
} Hits;

typedef Hits (*Search)(const char *text, int n, const char *pattern, int m);

static uint64_t state = 88172645463325252u;

static int random_below(int bound)
{
    state ^= state << 7;
    state ^= state >> 9;
    return (int)((state >> 20) % (uint64_t)bound);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL) {
        puts("strsearch: out of memory");
        exit(1);
    }
    return memory;
}

static void hit(Hits *h, int place)
{
    h->count++;
    h->places = (h->places ^ (uint32_t)place) * 16777619u;
}

static Hits search_naive(const char *text, int n, const char *pattern, int m)
{
    Hits hits = {0, 2166136261u};
    for (int i = 0; i + m <= n; i++) {
        int k = 0;
        while (k < m && text[i + k] == pattern[k])
            k++;
        if (k == m)
            hit(&hits, i);
    }
    return hits;
}

/* border[k] is the length of the longest proper prefix of pattern[0..k] that is also its suffix. */
static void find_borders(const char *pattern, int m, int *border)
{
    border[0] = 0;
    for (int i = 1, k = 0; i < m; i++) {
        while (k > 0 && pattern[i] != pattern[k])
            k = border[k - 1];
        if (pattern[i] == pattern[k])
            k++;
        border[i] = k;
    }
}

static Hits search_kmp(const char *text, int n, const char *pattern, int m)
{
    Hits hits = {0, 2166136261u};
    int border[MAX_LENGTH], k = 0;
    find_borders(pattern, m, border);
    for (int i = 0; i < n; i++) {
        while (k > 0 && text[i] != pattern[k])
            k = border[k - 1];
        if (text[i] == pattern[k])
            k++;
        if (k == m) {
            hit(&hits, i - m + 1);
            k = border[k - 1];
        }
    }
    return hits;
}

static Hits search_horspool(const char *text, int n, const char *pattern, int m)
{
    Hits hits = {0, 2166136261u};
    int shift[256];
    for (int c = 0; c < 256; c++)
        shift[c] = m;
    for (int k = 0; k < m - 1; k++)
        shift[(unsigned char)pattern[k]] = m - 1 - k;
    for (int i = 0; i + m <= n; i += shift[(unsigned char)text[i + m - 1]]) {
        if (text[i + m - 1] == pattern[m - 1] && memcmp(text + i, pattern, (size_t)(m - 1)) == 0)
            hit(&hits, i);
    }
    return hits;
}

static Hits search_rabin_karp(const char *text, int n, const char *pattern, int m)
{
    enum { BASE = 257, PRIME = 1000003 };
    Hits hits = {0, 2166136261u};
    int64_t wanted = 0, rolling = 0, top = 1;
    if (m > n)
        return hits;
    for (int k = 0; k < m; k++) {
        wanted = (wanted * BASE + (unsigned char)pattern[k]) % PRIME;
        rolling = (rolling * BASE + (unsigned char)text[k]) % PRIME;
        if (k > 0)
            top = top * BASE % PRIME;
    }
    for (int i = 0;; i++) {
        if (rolling == wanted && strncmp(text + i, pattern, (size_t)m) == 0)
            hit(&hits, i);
        if (i + m >= n)
            return hits;
        rolling = (rolling + PRIME - (unsigned char)text[i] * top % PRIME) % PRIME;
        rolling = (rolling * BASE + (unsigned char)text[i + m]) % PRIME;
    }
}

/* Bit k of the state is set when the k + 1 latest letters are the pattern's first. */
static Hits search_shift_and(const char *text, int n, const char *pattern, int m)
{
    Hits hits = {0, 2166136261u};
    uint64_t mask[256] = {0}, matched = 0, last = (uint64_t)1 << (m - 1);
    for (int k = 0; k < m; k++)
        mask[(unsigned char)pattern[k]] |= (uint64_t)1 << k;
    for (int i = 0; i < n; i++) {
        matched = (matched << 1 | 1u) & mask[(unsigned char)text[i]];
        if (matched & last)
            hit(&hits, i - m + 1);
    }
    return hits;
}

/* ---- Aho-Corasick: a trie of all patterns with links to the longest suffix that is also in it ---- */

enum { LETTERS = 27 }; /* a to z and everything else */

typedef struct {
    int next[LETTERS];
    int suffix;  /* the longest proper suffix in the trie */
    int pattern; /* that ends here, or -1 */
    int shorter; /* nearest node along the suffix links where a pattern ends, or -1 */
} Node;

typedef struct {
    Node *node;
    int nodes;
} Trie;

static int letter(char c)
{
    return islower((unsigned char)c) ? c - 'a' : LETTERS - 1;
}

static int trie_add_node(Trie *t)
{
    Node *node = &t->node[t->nodes];
    for (int c = 0; c < LETTERS; c++)
        node->next[c] = -1;
    node->suffix = 0;
    node->pattern = node->shorter = -1;
    return t->nodes++;
}

static void trie_insert(Trie *t, const char *pattern, int index)
{
    int at = 0;
    for (const char *p = pattern; *p != '\0'; p++) {
        int c = letter(*p);
        if (t->node[at].next[c] < 0) {
            int fresh = trie_add_node(t);
            t->node[at].next[c] = fresh;
        }
        at = t->node[at].next[c];
    }
    t->node[at].pattern = index;
}

/* Breadth first, so that suffixes, which are shorter, are ready; missing edges become those of the suffix. */
static void trie_link(Trie *t)
{
    int *queue = allocate((size_t)t->nodes, sizeof(int)), head = 0, tail = 0;
    for (int c = 0; c < LETTERS; c++) {
        int child = t->node[0].next[c];
        if (child < 0)
            t->node[0].next[c] = 0;
        else
            queue[tail++] = child;
    }
    while (head < tail) {
        Node *here = &t->node[queue[head++]];
        const Node *suffix = &t->node[here->suffix];
        here->shorter = suffix->pattern >= 0 ? here->suffix : suffix->shorter;
        for (int c = 0; c < LETTERS; c++) {
            int child = here->next[c];
            if (child < 0) {
                here->next[c] = suffix->next[c];
            } else {
                t->node[child].suffix = suffix->next[c];
                queue[tail++] = child;
            }
        }
    }
    free(queue);
}

static void search_all(const Trie *t, const char *text, int n, const int *length, Hits *hits)
{
    int at = 0;
    for (int i = 0; i < n; i++) {
        at = t->node[at].next[letter(text[i])];
        for (int found = at; found >= 0; found = t->node[found].shorter)
            if (t->node[found].pattern >= 0)
                hit(&hits[t->node[found].pattern], i - length[t->node[found].pattern] + 1);
    }
}

/* ---- texts ---- */

static void write_prose(char *text, int n)
{
    static const char *const syllables[] = {"an",  "ban", "na", "the", "ing", "or", "re", "con",
                                            "ter", "ma",  "ti", "on",  "e",   "s",  "al", "qu"};
    int used = 0;
    while (used < n) {
        int parts = 1 + random_below(4);
        for (int k = 0; k < parts; k++) {
            const char *s = syllables[random_below(random_below(4) == 0 ? 16 : 9)];
            for (; *s != '\0' && used < n; s++)
                text[used++] = *s;
        }
        if (used < n)
            text[used++] = ' ';
    }
    text[n] = '\0';
}

static void write_dna(char *text, int n)
{
    int used = 0;
    while (used < n) {
        if (used > 400 && random_below(30) == 0) { /* now and then a copy of something earlier */
            int from = random_below(used - 200), length = 20 + random_below(150);
            for (int k = 0; k < length && used < n; k++)
                text[used++] = text[from + k];
        } else {
            text[used++] = "acgt"[random_below(4)];
        }
    }
    text[n] = '\0';
}

static void write_periodic(char *text, int n)
{
    for (int i = 0; i < n; i++)
        text[i] = random_below(200) == 0 ? 'b' : 'a';
    text[n] = '\0';
}

/* Pieces of the text, some of them with one letter changed; no two alike. */
static int choose_patterns(const char *text, int n, char patterns[][MAX_LENGTH + 1], int *length)
{
    int chosen = 0;
    while (chosen < MAX_PATTERNS) {
        int m = chosen < 4 ? chosen + 1 : 2 + random_below(chosen * 2);
        int from = random_below(n - m);
        char *pattern = patterns[chosen];
        memcpy(pattern, text + from, (size_t)m);
        pattern[m] = '\0';
        if (chosen % 4 == 3)
            pattern[random_below(m)] = 'e';
        bool known = false;
        for (int k = 0; k < chosen; k++)
            known = known || strcmp(patterns[k], pattern) == 0;
        if (known && random_below(50) > 0)
            continue;
        if (known)
            break; /* a poor text may not have that many different pieces */
        length[chosen++] = m;
    }
    return chosen;
}

static void compare_searches(const char *name, void (*write_text)(char *, int), int n)
{
    static const Search searches[] = {search_naive, search_kmp, search_horspool, search_rabin_karp, search_shift_and};
    static char patterns[MAX_PATTERNS][MAX_LENGTH + 1];
    int length[MAX_PATTERNS], disagreements = 0, occurring = 0, best = 0, longest = 0;
    Hits together[MAX_PATTERNS];
    char *text = allocate((size_t)n + 1, 1);
    Trie trie = {allocate(MAX_PATTERNS * MAX_LENGTH + 1, sizeof(Node)), 0};
    write_text(text, n);
    int patterns_used = choose_patterns(text, n, patterns, length);
    trie_add_node(&trie);
    for (int p = 0; p < patterns_used; p++) {
        trie_insert(&trie, patterns[p], p);
        together[p] = (Hits){0, 2166136261u};
    }
    trie_link(&trie);
    search_all(&trie, text, n, length, together);

    uint32_t checksum = 0;
    for (int p = 0; p < patterns_used; p++) {
        for (size_t s = 0; s < sizeof searches / sizeof searches[0]; s++) {
            Hits hits = searches[s](text, n, patterns[p], length[p]);
            disagreements += hits.count != together[p].count || hits.places != together[p].places;
        }
        checksum = checksum * 31u + together[p].places;
        occurring += together[p].count > 0;
        if (together[p].count * length[p] > together[best].count * length[best])
            best = p;
        if (length[p] > length[longest])
            longest = p;
    }
    printf("%s: %d letters, %d patterns in %d nodes, %d occur, %d disagreements, checksum %08x\n", name, n, patterns_used,
           trie.nodes, occurring, disagreements, (unsigned)checksum);
    printf("  \"%s\" occurs %d times, the longest (%d letters) %d times\n", patterns[best], together[best].count,
           length[longest], together[longest].count);
    free(text);
    free(trie.node);
}

int main(int argc, char **argv)
{
    int n = 3000;
    if (argc > 1 && strcmp(argv[1], "medium") == 0) {
        n = 60000;
    } else if (argc > 1 && strcmp(argv[1], "large") == 0) {
        n = 500000;
    } else if (argc > 1 && strcmp(argv[1], "small") != 0) {
        puts("usage: strsearch [small|medium|large]");
        return 2;
    }
    compare_searches("prose", write_prose, n);
    compare_searches("dna", write_dna, n);
    compare_searches("periodic", write_periodic, n / 2);
    return 0;
}
