struct pair { int key; double value; };
static int table[64];
static int sum(const int *from, int count) {
    int total = 0;
    for (int i = 0; i < count; i++)
        total += from[i] * 3;
    return total;
}
int work(struct pair *pairs, int count, int (*call)(int), volatile char *text) {
    char local[24];
    double area = 1.0;
    for (int i = 0; i < count; i++) {
        switch (pairs[i].key) {
        case 0: area += pairs[i].value; break;
        case 1: area *= pairs[i].value / 3; break;
        case 2: area = -area; break;
        case 3: table[i & 63] = call(i); break;
        case 4: local[i % 24] = text[i]; break;
        default: return (int)area;
        }
    }
    for (int i = 0; i < 24; i++)
        local[i] = text[i] + local[23 - i];
    return sum(table, 64) + local[count % 24] + (count > 1 ? work(pairs + 1, count - 1, call, text) : 0);
}
