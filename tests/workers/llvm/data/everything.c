struct Node { int key; struct Node *left, *right; double weights[3]; union { float f; long l; } u; };
extern int puts(const char *), printf(const char *, ...), old_style();
extern void *malloc(unsigned long);
static int compare(const struct Node *a, const struct Node *b) { return a->key < b->key ? -1 : a->key > b->key; }
int (*table[2])(const struct Node *, const struct Node *) = {compare, compare};
int walk(struct Node *n, int depth) {
    if (!n || depth > 10) return old_style(depth);
    printf("%d %f\n", n->key, n->weights[depth % 3]);
    return walk(n->left, depth + 1) + walk(n->right, depth + 1) + table[depth & 1](n, n->left);
}
int classify(int c) {
    switch (c) {
    case 0: return 1;
    case 1: case 2: case 3: return c * 7;
    case 'a' ... 'z': puts("letter"); return c ^ 32;
    case 1000: goto out;
    default: if (c < 0) return -c;
    }
    for (;;) if (puts("for ever")) __builtin_trap();
out:
    return c << 1 | 1;
}
struct Node big(struct Node n, _Complex double z) { n.key += (int)__real__ z; return n; }
typedef float Vector __attribute__((vector_size(16)));
Vector blend(Vector a, Vector b, int i) { a[i & 3] = b[0]; return a * b + a - (Vector){0, 1, 2, 3}; }
int count(_Atomic int *n) { return __c11_atomic_fetch_add(n, 1, 5); }
unsigned __int128 power(unsigned __int128 base, unsigned n) {
    unsigned __int128 r = 1;
    for (; n; n >>= 1, base *= base) if (n & 1) r *= base;
    return r + ((unsigned __int128)1 << 100);
}
int sum(int n, ...) {
    __builtin_va_list list;
    int all = 0;
    __builtin_va_start(list, n);
    for (int i = 0; i < n; i++) all += __builtin_va_arg(list, int);
    __builtin_va_end(list);
    return all;
}
long interpret(const unsigned char *code, long *stack) {
    static void *labels[] = {&&push, &&add, &&stop};
    long *top = stack;
    goto *labels[*code++ & 3];
push: *top++ = *code++; goto *labels[*code++ & 3];
add: top--; top[-1] += *top; goto *labels[*code++ & 3];
stop: return top[-1];
}
unsigned long cycles(void) { unsigned a, d; __asm__ volatile("rdtsc" : "=a"(a), "=d"(d)); return a + d; }
double mean(const struct Node *items, int n, double (*weigh)(double, int)) {
    double sum = 0, all = 0;
    for (int i = 0; i < n; i++) { double w = weigh(items[i].weights[1], i); sum += w * items[i].weights[1]; all += w; }
    return all != 0 ? sum / all : -sum;
}
