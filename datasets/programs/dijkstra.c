// dijkstra: shortest paths by Dijkstra with a binary heap, Bellman-Ford, Floyd-Warshall and A*, which must agree

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FAR INT_MAX

typedef struct {
    int to, weight, next; /* next edge of the same node, or -1 */
} Edge;

typedef struct {
    int nodes, edges, capacity;
    int *head;
    Edge *edge;
} Graph;

/* Binary heap of nodes by distance that can lower the distance of a node inside it. */
typedef struct {
    int size;
    int *node, *place; /* place[node] is its index, or -1 */
    const int *distance;
} Heap;

static uint32_t state = 314159265u;

static int random_below(int bound)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (int)(state % (uint32_t)bound);
}

static void *allocate(int count, size_t size)
{
    void *memory = malloc((size_t)count * size);
    if (memory == NULL) {
        puts("dijkstra: out of memory");
        exit(1);
    }
    return memory;
}

static Graph graph_new(int nodes)
{
    Graph g = {nodes, 0, 4 * nodes, allocate(nodes, sizeof(int)), allocate(4 * nodes, sizeof(Edge))};
    for (int i = 0; i < nodes; i++)
        g.head[i] = -1;
    return g;
}

static void graph_free(Graph *g)
{
    free(g->head);
    free(g->edge);
}

static void add_edge(Graph *g, int from, int to, int weight)
{
    if (g->edges == g->capacity) {
        g->capacity *= 2;
        g->edge = realloc(g->edge, (size_t)g->capacity * sizeof(Edge));
        if (g->edge == NULL)
            exit(1);
    }
    g->edge[g->edges] = (Edge){to, weight, g->head[from]};
    g->head[from] = g->edges++;
}

/* A ring, so that everything can be reached, with random chords. */
static Graph random_graph(int nodes, int chords)
{
    Graph g = graph_new(nodes);
    for (int i = 0; i < nodes; i++)
        add_edge(&g, i, (i + 1) % nodes, 50 + random_below(50));
    for (int i = 0; i < chords; i++) {
        int from = random_below(nodes), to = random_below(nodes);
        add_edge(&g, from, to, 1 + random_below(100));
    }
    return g;
}

static void heap_swap(Heap *h, int i, int j)
{
    int a = h->node[i], b = h->node[j];
    h->node[i] = b;
    h->node[j] = a;
    h->place[b] = i;
    h->place[a] = j;
}

static bool heap_less(const Heap *h, int i, int j)
{
    return h->distance[h->node[i]] < h->distance[h->node[j]];
}

static void heap_up(Heap *h, int i)
{
    while (i > 0 && heap_less(h, i, (i - 1) / 2)) {
        heap_swap(h, i, (i - 1) / 2);
        i = (i - 1) / 2;
    }
}

static void heap_down(Heap *h, int i)
{
    for (;;) {
        int least = i;
        for (int child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < h->size && heap_less(h, child, least))
                least = child;
        if (least == i)
            return;
        heap_swap(h, i, least);
        i = least;
    }
}

static void heap_offer(Heap *h, int node)
{
    if (h->place[node] < 0) {
        h->place[node] = h->size;
        h->node[h->size++] = node;
    }
    heap_up(h, h->place[node]);
}

static int heap_take(Heap *h)
{
    int top = h->node[0];
    heap_swap(h, 0, --h->size);
    h->place[top] = -1;
    heap_down(h, 0);
    return top;
}

static Heap heap_new(int capacity, const int *distance)
{
    Heap h = {0, allocate(capacity, sizeof(int)), allocate(capacity, sizeof(int)), distance};
    for (int i = 0; i < capacity; i++)
        h.place[i] = -1;
    return h;
}

static void heap_free(Heap *h)
{
    free(h->node);
    free(h->place);
}

static void forget(int *distance, int *parent, int nodes)
{
    for (int i = 0; i < nodes; i++) {
        distance[i] = FAR;
        parent[i] = -1;
    }
}

static void dijkstra(const Graph *g, int source, int *distance, int *parent)
{
    Heap heap = heap_new(g->nodes, distance);
    forget(distance, parent, g->nodes);
    distance[source] = 0;
    heap_offer(&heap, source);
    while (heap.size > 0) {
        int here = heap_take(&heap);
        for (int e = g->head[here]; e >= 0; e = g->edge[e].next) {
            int to = g->edge[e].to, length = distance[here] + g->edge[e].weight;
            if (length < distance[to]) {
                distance[to] = length;
                parent[to] = here;
                heap_offer(&heap, to);
            }
        }
    }
    heap_free(&heap);
}

/* Rounds over all edges until nothing changes; -1 when a negative cycle never lets it settle. */
static int bellman_ford(const Graph *g, int source, int *distance, int *parent)
{
    forget(distance, parent, g->nodes);
    distance[source] = 0;
    for (int round = 1; round <= g->nodes; round++) {
        bool changed = false;
        for (int from = 0; from < g->nodes; from++) {
            if (distance[from] == FAR)
                continue;
            for (int e = g->head[from]; e >= 0; e = g->edge[e].next) {
                const Edge *edge = &g->edge[e];
                if (distance[from] + edge->weight < distance[edge->to]) {
                    distance[edge->to] = distance[from] + edge->weight;
                    parent[edge->to] = from;
                    changed = true;
                }
            }
        }
        if (!changed)
            return round;
    }
    return -1;
}

static int *floyd_warshall(const Graph *g)
{
    int n = g->nodes;
    int *d = allocate(n * n, sizeof(int));
    for (int i = 0; i < n * n; i++)
        d[i] = i / n == i % n ? 0 : FAR;
    for (int from = 0; from < n; from++)
        for (int e = g->head[from]; e >= 0; e = g->edge[e].next)
            if (g->edge[e].weight < d[from * n + g->edge[e].to])
                d[from * n + g->edge[e].to] = g->edge[e].weight;
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < n; i++) {
            int through = d[i * n + k];
            if (through == FAR)
                continue;
            for (int j = 0; j < n; j++)
                if (d[k * n + j] != FAR && through + d[k * n + j] < d[i * n + j])
                    d[i * n + j] = through + d[k * n + j];
        }
    }
    return d;
}

static uint32_t mix(uint32_t hash, int value)
{
    hash ^= (uint32_t)value + 0x9E3779B9u + (hash << 6) + (hash >> 2);
    return hash;
}

static void compare_single_source(int nodes)
{
    Graph g = random_graph(nodes, 5 * nodes);
    int *fast = allocate(nodes, sizeof(int)), *slow = allocate(nodes, sizeof(int)), *parent = allocate(nodes, sizeof(int));
    int rounds = bellman_ford(&g, 0, slow, parent);
    dijkstra(&g, 0, fast, parent);
    int farthest = 0;
    uint32_t hash = 0;
    for (int i = 0; i < nodes; i++) {
        hash = mix(hash, fast[i]);
        if (fast[i] > fast[farthest])
            farthest = i;
    }
    printf("%d nodes, %d edges: bellman-ford %s in %d rounds, checksum %08x\n", nodes, g.edges,
           memcmp(fast, slow, (size_t)nodes * sizeof(int)) == 0 ? "agrees" : "DISAGREES", rounds, (unsigned)hash);
    int hops = 0, length = 0;
    for (int at = farthest; parent[at] >= 0; at = parent[at]) {
        int best = FAR;
        for (int e = g.head[parent[at]]; e >= 0; e = g.edge[e].next)
            if (g.edge[e].to == at && g.edge[e].weight < best)
                best = g.edge[e].weight;
        length += best;
        hops++;
    }
    printf("farthest node %d at %d, path of %d hops %s\n", farthest, fast[farthest], hops,
           length == fast[farthest] ? "adds up" : "DOES NOT add up");
    graph_free(&g);
    free(fast);
    free(slow);
    free(parent);
}

static void compare_all_pairs(int nodes)
{
    Graph g = random_graph(nodes, 3 * nodes);
    int *table = floyd_warshall(&g), *row = allocate(nodes, sizeof(int)), *parent = allocate(nodes, sizeof(int));
    int wrong = 0, diameter = 0;
    uint32_t hash = 0;
    for (int source = 0; source < nodes; source++) {
        dijkstra(&g, source, row, parent);
        for (int i = 0; i < nodes; i++) {
            wrong += row[i] != table[source * nodes + i];
            diameter = row[i] > diameter ? row[i] : diameter;
            hash = mix(hash, table[source * nodes + i]);
        }
    }
    printf("all pairs of %d nodes: %d wrong, diameter %d, checksum %08x\n", nodes, wrong, diameter, (unsigned)hash);
    graph_free(&g);
    free(table);
    free(row);
    free(parent);
}

/* Potentials keep every cycle's sum while single edges become negative, so distances shift by a known amount. */
static void check_negative_edges(int nodes)
{
    Graph g = random_graph(nodes, 3 * nodes);
    int *plain = allocate(nodes, sizeof(int)), *shifted = allocate(nodes, sizeof(int)), *parent = allocate(nodes, sizeof(int));
    int *potential = allocate(nodes, sizeof(int)), negative = 0, wrong = 0;
    dijkstra(&g, 0, plain, parent);
    for (int i = 0; i < nodes; i++)
        potential[i] = random_below(80);
    for (int from = 0; from < nodes; from++) {
        for (int e = g.head[from]; e >= 0; e = g.edge[e].next) {
            g.edge[e].weight += potential[from] - potential[g.edge[e].to];
            negative += g.edge[e].weight < 0;
        }
    }
    int rounds = bellman_ford(&g, 0, shifted, parent);
    for (int i = 0; i < nodes; i++)
        wrong += shifted[i] != plain[i] + potential[0] - potential[i];
    printf("%d negative edges: %d rounds, %d wrong", negative, rounds, wrong);
    add_edge(&g, nodes / 2, nodes / 2, -1);
    printf(", a negative cycle is %s\n", bellman_ford(&g, 0, shifted, parent) < 0 ? "found" : "MISSED");
    graph_free(&g);
    free(plain);
    free(shifted);
    free(parent);
    free(potential);
}

/* A* through a field of walls and mud, from the top left to the bottom right corner, on the same heap. */
static void find_way(int side)
{
    int cells = side * side, goal = cells - 1, expanded = 0;
    unsigned char *cost = allocate(cells, 1); /* 0 is a wall */
    int *walked = allocate(cells, sizeof(int)), *guess = allocate(cells, sizeof(int)), *parent = allocate(cells, sizeof(int));
    Graph g = graph_new(cells);
    for (int i = 0; i < cells; i++) {
        int roll = random_below(10), x = i % side, y = i / side;
        bool corner = (x < 4 && y < 4) || (x >= side - 4 && y >= side - 4);
        cost[i] = (unsigned char)(corner ? 1 : roll < 2 ? 0 : roll < 4 ? 5 : 1);
    }
    static const int dx[4] = {1, 0, -1, 0}, dy[4] = {0, 1, 0, -1};
    Heap heap = heap_new(cells, guess);
    forget(walked, parent, cells);
    forget(guess, parent, cells);
    walked[0] = 0;
    guess[0] = 2 * (side - 1);
    heap_offer(&heap, 0);
    while (heap.size > 0) {
        int here = heap_take(&heap), x = here % side, y = here / side;
        expanded++;
        if (here == goal)
            break;
        for (int k = 0; k < 4; k++) {
            int nx = x + dx[k], ny = y + dy[k], next = ny * side + nx;
            if (nx < 0 || ny < 0 || nx >= side || ny >= side || cost[next] == 0)
                continue;
            if (walked[here] + cost[next] < walked[next]) {
                walked[next] = walked[here] + cost[next];
                guess[next] = walked[next] + (side - 1 - nx) + (side - 1 - ny);
                parent[next] = here;
                heap_offer(&heap, next);
            }
        }
    }
    int found = walked[goal];
    for (int here = 0; here < cells; here++)
        for (int k = 0; k < 4; k++) {
            int nx = here % side + dx[k], ny = here / side + dy[k];
            if (nx >= 0 && ny >= 0 && nx < side && ny < side && cost[here] > 0 && cost[ny * side + nx] > 0)
                add_edge(&g, here, ny * side + nx, cost[ny * side + nx]);
        }
    dijkstra(&g, 0, walked, parent);
    if (found == FAR)
        printf("field %d x %d: no way, %d cells reached\n", side, side, expanded);
    else
        printf("field %d x %d: way of cost %d %s, %s than all cells expanded\n", side, side, found,
               found == walked[goal] ? "is shortest" : "is NOT shortest", expanded < cells * 4 / 5 ? "fewer" : "no fewer");
    heap_free(&heap);
    graph_free(&g);
    free(cost);
    free(walked);
    free(guess);
    free(parent);
}

int main(int argc, char **argv)
{
    int scale = 1;
    if (argc > 1) {
        if (strcmp(argv[1], "medium") == 0) {
            scale = 4;
        } else if (strcmp(argv[1], "large") == 0) {
            scale = 10;
        } else if (strcmp(argv[1], "small") != 0) {
            puts("usage: dijkstra [small|medium|large]");
            return 2;
        }
    }
    compare_single_source(1000 * scale * scale);
    compare_all_pairs(50 * scale);
    check_negative_edges(150 * scale);
    find_way(50 * scale);
    return 0;
}
