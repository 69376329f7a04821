// maxflow: maximum flows two ways, matching, assignment, strong components and 2-SAT, each checked against another method

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Arc 2k and its reverse 2k + 1 are neighbours in the array, so the partner of arc a is a ^ 1. */
typedef struct {
    int to, next;
    int capacity; /* what is left of it */
    int cost;
} Arc;

typedef struct {
    int nodes, arcs, room;
    int *first;
    Arc *arc;
} Network;

static uint32_t state = 271828u;

static int random_below(int bound)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 9) % (uint32_t)bound);
}

static void *allocate(int count, size_t size)
{
    void *memory = calloc((size_t)count + 1, size);
    if (memory == NULL) {
        puts("maxflow: out of memory");
        exit(1);
    }
    return memory;
}

static int *filled(int count, int value)
{
    int *list = allocate(count, sizeof(int));
    for (int i = 0; i < count; i++)
        list[i] = value;
    return list;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static Network network_new(int nodes)
{
    Network net = {nodes, 0, 16, filled(nodes, -1), allocate(16, sizeof(Arc))};
    return net;
}

static void network_free(Network *net)
{
    free(net->first);
    free(net->arc);
}

static void add_half(Network *net, int from, int to, int capacity, int cost)
{
    if (net->arcs == net->room) {
        net->room *= 2;
        net->arc = realloc(net->arc, (size_t)net->room * sizeof(Arc));
        if (net->arc == NULL)
            exit(1);
    }
    net->arc[net->arcs] = (Arc){to, net->first[from], capacity, cost};
    net->first[from] = net->arcs++;
}

static void add_arc(Network *net, int from, int to, int capacity, int cost)
{
    add_half(net, from, to, capacity, cost);
    add_half(net, to, from, 0, -cost);
}

static Network network_copy(const Network *net)
{
    Network copy = *net;
    copy.first = allocate(net->nodes, sizeof(int));
    copy.arc = allocate(net->room, sizeof(Arc));
    memcpy(copy.first, net->first, (size_t)net->nodes * sizeof(int));
    memcpy(copy.arc, net->arc, (size_t)net->arcs * sizeof(Arc));
    return copy;
}

/* ---- Dinic: shortest layers, then a blocking flow by depth-first search ---- */

static bool find_layers(const Network *net, int source, int sink, int *layer, int *queue)
{
    int head = 0, tail = 0;
    for (int i = 0; i < net->nodes; i++)
        layer[i] = -1;
    layer[source] = 0;
    queue[tail++] = source;
    while (head < tail) {
        int here = queue[head++];
        for (int a = net->first[here]; a >= 0; a = net->arc[a].next) {
            int to = net->arc[a].to;
            if (net->arc[a].capacity > 0 && layer[to] < 0) {
                layer[to] = layer[here] + 1;
                queue[tail++] = to;
            }
        }
    }
    return layer[sink] >= 0;
}

static int push_flow(Network *net, int here, int sink, int limit, const int *layer, int *current)
{
    if (here == sink)
        return limit;
    for (; current[here] >= 0; current[here] = net->arc[current[here]].next) {
        int a = current[here];
        Arc *arc = &net->arc[a];
        if (arc->capacity == 0 || layer[arc->to] != layer[here] + 1)
            continue;
        int pushed = push_flow(net, arc->to, sink, least(limit, arc->capacity), layer, current);
        if (pushed > 0) {
            net->arc[a].capacity -= pushed;
            net->arc[a ^ 1].capacity += pushed;
            return pushed;
        }
    }
    return 0;
}

static int dinic(Network *net, int source, int sink, int *phases)
{
    int *layer = allocate(net->nodes, sizeof(int)), *current = allocate(net->nodes, sizeof(int));
    int *queue = allocate(net->nodes, sizeof(int)), total = 0;
    for (*phases = 0; find_layers(net, source, sink, layer, queue); ++*phases) {
        memcpy(current, net->first, (size_t)net->nodes * sizeof(int));
        for (int pushed; (pushed = push_flow(net, source, sink, INT_MAX, layer, current)) > 0;)
            total += pushed;
    }
    free(layer);
    free(current);
    free(queue);
    return total;
}

/* ---- push-relabel, first active node first; nodes that cannot reach the sink any more are left alone ---- */

typedef struct {
    int *height, *excess, *queue, *search;
    bool *waiting;
    int head, count, nodes;
} Preflow;

static void activate(Preflow *p, int node)
{
    if (p->waiting[node] || p->height[node] >= p->nodes)
        return;
    p->waiting[node] = true;
    p->queue[(p->head + p->count++) % p->nodes] = node;
}

static void push(Network *net, Preflow *p, int from, int a)
{
    int amount = least(p->excess[from], net->arc[a].capacity);
    net->arc[a].capacity -= amount;
    net->arc[a ^ 1].capacity += amount;
    p->excess[from] -= amount;
    p->excess[net->arc[a].to] += amount;
}

/* Empties a node: pushes downhill, and raises it just above its lowest neighbour when there is no downhill. */
static void discharge(Network *net, Preflow *p, int here, int source, int sink)
{
    while (p->excess[here] > 0 && p->height[here] < p->nodes) {
        int lowest = INT_MAX;
        for (int a = net->first[here]; a >= 0 && p->excess[here] > 0; a = net->arc[a].next) {
            int to = net->arc[a].to;
            if (net->arc[a].capacity == 0)
                continue;
            if (p->height[here] == p->height[to] + 1) {
                push(net, p, here, a);
                if (to != source && to != sink)
                    activate(p, to);
            } else {
                lowest = least(lowest, p->height[to]);
            }
        }
        if (p->excess[here] > 0)
            p->height[here] = lowest + 1;
    }
}

/* Heights are set to distances to the sink now and then, without which most of the work would be lifting. */
static void measure_heights(const Network *net, int source, int sink, Preflow *p)
{
    int head = 0, tail = 0;
    for (int i = 0; i < net->nodes; i++)
        p->height[i] = net->nodes;
    p->height[sink] = 0;
    p->search[tail++] = sink;
    while (head < tail) {
        int here = p->search[head++];
        for (int a = net->first[here]; a >= 0; a = net->arc[a].next) {
            int from = net->arc[a].to;
            if (from != source && net->arc[a ^ 1].capacity > 0 && p->height[from] == net->nodes) {
                p->height[from] = p->height[here] + 1;
                p->search[tail++] = from;
            }
        }
    }
}

static int push_relabel(Network *net, int source, int sink)
{
    int n = net->nodes;
    Preflow p = {filled(n, 0), filled(n, 0), filled(n, 0), filled(n, 0), allocate(n, sizeof(bool)), 0, 0, n};
    measure_heights(net, source, sink, &p);
    for (int a = net->first[source]; a >= 0; a = net->arc[a].next) {
        int amount = net->arc[a].capacity, to = net->arc[a].to;
        if (amount == 0)
            continue;
        p.excess[source] = amount;
        push(net, &p, source, a);
        if (to != sink && to != source)
            activate(&p, to);
    }
    for (int done = 1; p.count > 0; done++) {
        int here = p.queue[p.head];
        p.head = (p.head + 1) % n;
        p.count--;
        p.waiting[here] = false;
        discharge(net, &p, here, source, sink);
        if (done % n == 0)
            measure_heights(net, source, sink, &p);
    }
    int total = p.excess[sink];
    free(p.height);
    free(p.excess);
    free(p.queue);
    free(p.search);
    free(p.waiting);
    return total;
}

/* Capacity of the arcs that leave what the source still reaches in the finished network. */
static int cut_capacity(const Network *before, const Network *after, int source, int sink, int *size)
{
    int *layer = allocate(after->nodes, sizeof(int)), *queue = allocate(after->nodes, sizeof(int)), total = 0;
    bool open = find_layers(after, source, sink, layer, queue);
    assert(!open);
    (void)open;
    *size = 0;
    for (int from = 0; from < before->nodes; from++) {
        if (layer[from] < 0)
            continue;
        for (int a = before->first[from]; a >= 0; a = before->arc[a].next) {
            if (a % 2 == 0 && layer[before->arc[a].to] < 0) {
                total += before->arc[a].capacity;
                ++*size;
            }
        }
    }
    free(layer);
    free(queue);
    return total;
}

static bool flow_is_conserved(const Network *before, const Network *after, int source, int sink)
{
    int *balance = allocate(before->nodes, sizeof(int));
    bool fine = true;
    for (int a = 0; a < before->arcs; a += 2) {
        int flow = before->arc[a].capacity - after->arc[a].capacity;
        fine = fine && flow >= 0 && after->arc[a].capacity >= 0;
        balance[before->arc[a].to] += flow;
        balance[before->arc[a + 1].to] -= flow;
    }
    for (int i = 0; i < before->nodes; i++)
        fine = fine && (i == source || i == sink || balance[i] == 0);
    free(balance);
    return fine;
}

static void compare_flows(const char *name, const Network *net, int source, int sink)
{
    Network by_layers = network_copy(net), by_heights = network_copy(net);
    int phases, size;
    int flow = dinic(&by_layers, source, sink, &phases);
    int other = push_relabel(&by_heights, source, sink);
    int cut = cut_capacity(net, &by_layers, source, sink, &size);
    printf("%s: %d nodes, %d arcs, flow %d in %d phases, push-relabel %s, minimum cut of %d arcs %s, flow %s\n", name,
           net->nodes, net->arcs / 2, flow, phases, other == flow ? "agrees" : "DISAGREES", size,
           cut == flow ? "agrees" : "DISAGREES",
           flow_is_conserved(net, &by_layers, source, sink) ? "conserved" : "NOT conserved");
    network_free(&by_layers);
    network_free(&by_heights);
}

static Network random_network(int nodes, int arcs)
{
    Network net = network_new(nodes);
    for (int i = 0; i < arcs; i++) {
        int from = random_below(nodes), to = random_below(nodes);
        if (from != to)
            add_arc(&net, from, to, 1 + random_below(100), 0);
    }
    return net;
}

/* Sheets of water: a grid whose left column is fed by the source and whose right column drains. */
static Network grid_network(int side)
{
    int source = side * side, sink = source + 1;
    Network net = network_new(sink + 1);
    for (int y = 0; y < side; y++) {
        add_arc(&net, source, y * side, 60, 0);
        add_arc(&net, y * side + side - 1, sink, 60, 0);
        for (int x = 0; x < side; x++) {
            int here = y * side + x;
            if (x + 1 < side)
                add_arc(&net, here, here + 1, 1 + random_below(50), 0);
            if (y + 1 < side) {
                add_arc(&net, here, here + side, 1 + random_below(30), 0);
                add_arc(&net, here + side, here, 1 + random_below(30), 0);
            }
        }
    }
    return net;
}

/* ---- bipartite matching: Hopcroft-Karp, checked by flow and by a vertex cover of the same size ---- */

typedef struct {
    int left, right;
    int *start, *neighbour; /* neighbours of left node i: start[i] .. start[i + 1] */
    int *mate_left, *mate_right;
    int *layer, *queue;
} Bipartite;

static Bipartite random_bipartite(int left, int right, int degree)
{
    Bipartite b = {left, right, allocate(left + 1, sizeof(int)), allocate(left * degree, sizeof(int)),
                   filled(left, -1), filled(right, -1), allocate(left, sizeof(int)), allocate(left, sizeof(int))};
    int used = 0;
    for (int i = 0; i < left; i++) {
        b.start[i] = used;
        for (int k = random_below(2 * degree); k > 0 && used < left * degree; k--)
            b.neighbour[used++] = random_below(i % 3 == 0 ? right / 4 + 1 : right);
    }
    b.start[left] = used;
    return b;
}

static void bipartite_free(Bipartite *b)
{
    int *lists[] = {b->start, b->neighbour, b->mate_left, b->mate_right, b->layer, b->queue};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        free(lists[i]);
}

static bool matching_layers(Bipartite *b)
{
    int head = 0, tail = 0;
    bool free_right = false;
    for (int i = 0; i < b->left; i++) {
        b->layer[i] = b->mate_left[i] < 0 ? 0 : -1;
        if (b->layer[i] == 0)
            b->queue[tail++] = i;
    }
    while (head < tail) {
        int i = b->queue[head++];
        for (int k = b->start[i]; k < b->start[i + 1]; k++) {
            int next = b->mate_right[b->neighbour[k]];
            if (next < 0) {
                free_right = true;
            } else if (b->layer[next] < 0) {
                b->layer[next] = b->layer[i] + 1;
                b->queue[tail++] = next;
            }
        }
    }
    return free_right;
}

static bool augment(Bipartite *b, int i)
{
    for (int k = b->start[i]; k < b->start[i + 1]; k++) {
        int j = b->neighbour[k], next = b->mate_right[j];
        if (next < 0 || (b->layer[next] == b->layer[i] + 1 && augment(b, next))) {
            b->mate_left[i] = j;
            b->mate_right[j] = i;
            return true;
        }
    }
    b->layer[i] = -1;
    return false;
}

static int hopcroft_karp(Bipartite *b)
{
    int pairs = 0;
    while (matching_layers(b))
        for (int i = 0; i < b->left; i++)
            if (b->mate_left[i] < 0 && augment(b, i))
                pairs++;
    return pairs;
}

/* Koenig: left nodes that alternating paths from free ones do not reach, and right nodes that they do. */
static int vertex_cover(Bipartite *b, bool *covers_all)
{
    bool *reached = allocate(b->right, sizeof(bool));
    int size = 0;
    matching_layers(b);
    for (int i = 0; i < b->left; i++)
        for (int k = b->start[i]; k < b->start[i + 1]; k++)
            if (b->layer[i] >= 0)
                reached[b->neighbour[k]] = true;
    *covers_all = true;
    for (int i = 0; i < b->left; i++) {
        size += b->layer[i] < 0;
        for (int k = b->start[i]; k < b->start[i + 1]; k++)
            *covers_all = *covers_all && (b->layer[i] < 0 || reached[b->neighbour[k]]);
    }
    for (int j = 0; j < b->right; j++)
        size += reached[j];
    free(reached);
    return size;
}

static void compare_matchings(int left, int right)
{
    Bipartite b = random_bipartite(left, right, 3);
    Network net = network_new(left + right + 2);
    bool covers_all;
    int phases;
    for (int i = 0; i < left; i++) {
        add_arc(&net, left + right, i, 1, 0);
        for (int k = b.start[i]; k < b.start[i + 1]; k++)
            add_arc(&net, i, left + b.neighbour[k], 1, 0);
    }
    for (int j = 0; j < right; j++)
        add_arc(&net, left + j, left + right + 1, 1, 0);
    int pairs = hopcroft_karp(&b), flow = dinic(&net, left + right, left + right + 1, &phases);
    int cover = vertex_cover(&b, &covers_all);
    printf("matching %d to %d: %d pairs, flow %s, cover %s\n", left, right, pairs, flow == pairs ? "agrees" : "DISAGREES",
           cover == pairs && covers_all ? "proves it" : "DISAGREES");
    bipartite_free(&b);
    network_free(&net);
}

/* ---- assignment: minimum-cost flow by shortest augmenting paths against the Hungarian method ---- */

static int cheapest_flow(Network *net, int source, int sink, int *cost)
{
    int n = net->nodes, flow = 0;
    int *distance = allocate(n, sizeof(int)), *via = allocate(n, sizeof(int)), *queue = allocate(n, sizeof(int));
    bool *waiting = allocate(n, sizeof(bool));
    *cost = 0;
    for (;;) {
        int head = 0, count = 1;
        for (int i = 0; i < n; i++)
            distance[i] = INT_MAX;
        distance[source] = 0;
        queue[0] = source;
        while (count > 0) {
            int here = queue[head];
            head = (head + 1) % n;
            count--;
            waiting[here] = false;
            for (int a = net->first[here]; a >= 0; a = net->arc[a].next) {
                const Arc *arc = &net->arc[a];
                if (arc->capacity == 0 || distance[here] + arc->cost >= distance[arc->to])
                    continue;
                distance[arc->to] = distance[here] + arc->cost;
                via[arc->to] = a;
                if (!waiting[arc->to]) {
                    waiting[arc->to] = true;
                    queue[(head + count++) % n] = arc->to;
                }
            }
        }
        if (distance[sink] == INT_MAX)
            break;
        int amount = INT_MAX;
        for (int at = sink; at != source; at = net->arc[via[at] ^ 1].to)
            amount = least(amount, net->arc[via[at]].capacity);
        for (int at = sink; at != source; at = net->arc[via[at] ^ 1].to) {
            net->arc[via[at]].capacity -= amount;
            net->arc[via[at] ^ 1].capacity += amount;
        }
        flow += amount;
        *cost += amount * distance[sink];
    }
    free(distance);
    free(via);
    free(queue);
    free(waiting);
    return flow;
}

/* Rows and columns count from 1; column 0 holds the row being placed. */
static int hungarian(const int *cost, int n)
{
    int *row_price = filled(n + 1, 0), *column_price = filled(n + 1, 0), *row_of = filled(n + 1, 0);
    int *way = filled(n + 1, 0), *slack = allocate(n + 1, sizeof(int)), total = 0;
    bool *used = allocate(n + 1, sizeof(bool));
    for (int row = 1; row <= n; row++) {
        int column = 0;
        row_of[0] = row;
        for (int j = 0; j <= n; j++) {
            slack[j] = INT_MAX;
            used[j] = false;
        }
        do {
            int here = row_of[column], smallest = INT_MAX, next = 0;
            used[column] = true;
            for (int j = 1; j <= n; j++) {
                if (used[j])
                    continue;
                int reduced = cost[(here - 1) * n + j - 1] - row_price[here] - column_price[j];
                if (reduced < slack[j]) {
                    slack[j] = reduced;
                    way[j] = column;
                }
                if (slack[j] < smallest) {
                    smallest = slack[j];
                    next = j;
                }
            }
            for (int j = 0; j <= n; j++) {
                if (used[j]) {
                    row_price[row_of[j]] += smallest;
                    column_price[j] -= smallest;
                } else if (j > 0) {
                    slack[j] -= smallest;
                }
            }
            column = next;
        } while (row_of[column] != 0);
        for (; column != 0; column = way[column])
            row_of[column] = row_of[way[column]];
    }
    for (int j = 1; j <= n; j++)
        total += cost[(row_of[j] - 1) * n + j - 1];
    int *lists[] = {row_price, column_price, row_of, way, slack};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        free(lists[i]);
    free(used);
    return total;
}

static void compare_assignments(int n)
{
    int *cost = allocate(n * n, sizeof(int)), by_flow;
    Network net = network_new(2 * n + 2);
    for (int i = 0; i < n; i++) {
        add_arc(&net, 2 * n, i, 1, 0);
        add_arc(&net, n + i, 2 * n + 1, 1, 0);
        for (int j = 0; j < n; j++) {
            cost[i * n + j] = 10 + random_below(990);
            add_arc(&net, i, n + j, 1, cost[i * n + j]);
        }
    }
    int placed = cheapest_flow(&net, 2 * n, 2 * n + 1, &by_flow), direct = hungarian(cost, n);
    printf("assignment of %d: cost %d, hungarian method %s\n", placed, by_flow, direct == by_flow ? "agrees" : "DISAGREES");
    network_free(&net);
    free(cost);
}

/* ---- strong components by Tarjan, and 2-SAT on top of them ---- */

typedef struct {
    const Network *net;
    int *order, *low, *component, *stack;
    int depth, visited, components;
} Tarjan;

static void visit(Tarjan *t, int here)
{
    t->order[here] = t->low[here] = ++t->visited;
    t->stack[t->depth++] = here;
    for (int a = t->net->first[here]; a >= 0; a = t->net->arc[a].next) {
        int to = t->net->arc[a].to;
        if (t->order[to] == 0) {
            visit(t, to);
            t->low[here] = least(t->low[here], t->low[to]);
        } else if (t->component[to] < 0) {
            t->low[here] = least(t->low[here], t->order[to]);
        }
    }
    if (t->low[here] == t->order[here]) {
        int member;
        do {
            member = t->stack[--t->depth];
            t->component[member] = t->components;
        } while (member != here);
        t->components++;
    }
}

/* Components are numbered so that arcs between them lead to smaller numbers. */
static int strong_components(const Network *net, int *component)
{
    int n = net->nodes;
    Tarjan t = {net, allocate(n, sizeof(int)), allocate(n, sizeof(int)), component, allocate(n, sizeof(int)), 0, 0, 0};
    for (int i = 0; i < n; i++)
        component[i] = -1;
    for (int i = 0; i < n; i++)
        if (t.order[i] == 0)
            visit(&t, i);
    free(t.order);
    free(t.low);
    free(t.stack);
    return t.components;
}

static void describe_components(int nodes, int arcs)
{
    Network net = network_new(nodes);
    int *component = allocate(nodes, sizeof(int)), *size = allocate(nodes, sizeof(int)), largest = 0, backward = 0;
    for (int i = 0; i < arcs; i++) {
        int from = random_below(nodes), to = random_below(nodes);
        add_half(&net, from, to, 1, 0);
    }
    int count = strong_components(&net, component);
    uint32_t hash = 5381;
    for (int i = 0; i < nodes; i++) {
        hash = hash * 33u + (uint32_t)component[i];
        size[component[i]]++;
        for (int a = net.first[i]; a >= 0; a = net.arc[a].next)
            backward += component[net.arc[a].to] > component[i];
    }
    for (int c = 0; c < count; c++)
        largest = size[c] > largest ? size[c] : largest;
    printf("%d nodes, %d arcs: %d components, the largest of %d, %d arcs uphill, checksum %08x\n", nodes, arcs, count,
           largest, backward, (unsigned)hash);
    network_free(&net);
    free(component);
    free(size);
}

/* Literal 2v is variable v, 2v + 1 its negation. Returns false when no assignment satisfies all clauses. */
static bool satisfy(const int (*clause)[2], int clauses, int variables, bool *value)
{
    Network implications = network_new(2 * variables);
    int *component = allocate(2 * variables, sizeof(int));
    bool possible = true;
    for (int c = 0; c < clauses; c++) {
        add_half(&implications, clause[c][0] ^ 1, clause[c][1], 1, 0);
        add_half(&implications, clause[c][1] ^ 1, clause[c][0], 1, 0);
    }
    strong_components(&implications, component);
    for (int v = 0; v < variables; v++) {
        possible = possible && component[2 * v] != component[2 * v + 1];
        value[v] = component[2 * v] < component[2 * v + 1];
    }
    network_free(&implications);
    free(component);
    return possible;
}

static void try_formulas(int variables)
{
    bool *value = allocate(variables, sizeof(bool));
    int(*clause)[2] = allocate(2 * variables, sizeof *clause);
    int possible = 0, wrong = 0;
    unsigned trues = 0;
    for (int round = 0; round < 20; round++) {
        int clauses = variables * (round + 10) / 20;
        for (int c = 0; c < clauses; c++)
            for (int k = 0; k < 2; k++)
                clause[c][k] = random_below(2 * variables);
        if (!satisfy((const int(*)[2])clause, clauses, variables, value))
            continue;
        possible++;
        for (int c = 0; c < clauses; c++) {
            bool first = value[clause[c][0] / 2] != (clause[c][0] % 2 == 1);
            bool second = value[clause[c][1] / 2] != (clause[c][1] % 2 == 1);
            wrong += !first && !second;
        }
        for (int v = 0; v < variables; v++)
            trues += value[v];
    }
    printf("2-SAT: %d of 20 formulas satisfiable, %u variables true, %d clauses wrong\n", possible, trues, wrong);
    free(value);
    free(clause);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int scale;
    } sizes[] = {{"small", 1}, {"medium", 4}, {"large", 10}};
    const char *wanted = argc > 1 ? argv[1] : "small";
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int scale = sizes[i].scale;
        if (strcmp(wanted, sizes[i].name) != 0)
            continue;
        Network random = random_network(100 * scale, 800 * scale), grid = grid_network(12 * scale);
        compare_flows("random", &random, 0, 1);
        compare_flows("grid", &grid, grid.nodes - 2, grid.nodes - 1);
        network_free(&random);
        network_free(&grid);
        compare_matchings(300 * scale * scale, 280 * scale * scale);
        compare_assignments(20 * scale);
        describe_components(500 * scale * scale, 800 * scale * scale);
        try_formulas(100 * scale);
        return 0;
    }
    puts("usage: maxflow [small|medium|large]");
    return 2;
}
