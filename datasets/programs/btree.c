// btree: keeps an ordered index in a B-tree of small nodes, with bulk load, range scans, splits and merges
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEGREE 8 // every node but the root has DEGREE - 1 to 2 * DEGREE - 1 keys
#define MAX_KEYS (2 * DEGREE - 1)

typedef struct Node {
    int count;
    bool leaf;
    uint32_t keys[MAX_KEYS];
    uint64_t values[MAX_KEYS];
    struct Node *children[MAX_KEYS + 1];
} Node;

typedef struct {
    Node *root;
    size_t count;
    size_t nodes;
    long splits, merges, borrows;
} Tree;

static Node *new_node(Tree *tree, bool leaf) {
    Node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        puts("out of memory");
        exit(1);
    }
    node->leaf = leaf;
    tree->nodes++;
    return node;
}

static void free_node(Tree *tree, Node *node) {
    tree->nodes--;
    free(node);
}

// The first position whose key is not less than `key`.
static int lower_bound(const Node *node, uint32_t key) {
    int low = 0, high = node->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (node->keys[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t *find(const Tree *tree, uint32_t key) {
    Node *node = tree->root;
    for (;;) {
        int at = lower_bound(node, key);
        if (at < node->count && node->keys[at] == key)
            return &node->values[at];
        if (node->leaf)
            return NULL;
        node = node->children[at];
    }
}

static void open_gap(Node *node, int at) {
    size_t after = (size_t)(node->count - at);
    memmove(&node->keys[at + 1], &node->keys[at], after * sizeof node->keys[0]);
    memmove(&node->values[at + 1], &node->values[at], after * sizeof node->values[0]);
    if (!node->leaf)
        memmove(&node->children[at + 2], &node->children[at + 1], after * sizeof node->children[0]);
    node->count++;
}

// Removes the key at `at` and the child to its right.
static void close_gap(Node *node, int at) {
    size_t after = (size_t)(node->count - at - 1);
    memmove(&node->keys[at], &node->keys[at + 1], after * sizeof node->keys[0]);
    memmove(&node->values[at], &node->values[at + 1], after * sizeof node->values[0]);
    if (!node->leaf)
        memmove(&node->children[at + 1], &node->children[at + 2], after * sizeof node->children[0]);
    node->count--;
}

static void split_child(Tree *tree, Node *parent, int at) {
    Node *left = parent->children[at];
    Node *right = new_node(tree, left->leaf);
    right->count = DEGREE - 1;
    memcpy(right->keys, &left->keys[DEGREE], (DEGREE - 1) * sizeof left->keys[0]);
    memcpy(right->values, &left->values[DEGREE], (DEGREE - 1) * sizeof left->values[0]);
    if (!left->leaf)
        memcpy(right->children, &left->children[DEGREE], DEGREE * sizeof left->children[0]);
    left->count = DEGREE - 1;
    open_gap(parent, at);
    parent->keys[at] = left->keys[DEGREE - 1];
    parent->values[at] = left->values[DEGREE - 1];
    parent->children[at + 1] = right;
    tree->splits++;
}

static bool insert(Tree *tree, uint32_t key, uint64_t value) {
    if (tree->root->count == MAX_KEYS) {
        Node *root = new_node(tree, false);
        root->children[0] = tree->root;
        tree->root = root;
        split_child(tree, root, 0);
    }
    Node *node = tree->root;
    for (;;) {
        int at = lower_bound(node, key);
        if (at < node->count && node->keys[at] == key) {
            node->values[at] = value;
            return false;
        }
        if (node->leaf) {
            open_gap(node, at);
            node->keys[at] = key;
            node->values[at] = value;
            tree->count++;
            return true;
        }
        if (node->children[at]->count == MAX_KEYS) {
            split_child(tree, node, at);
            continue; // the key that moved up may be the one
        }
        node = node->children[at];
    }
}

static void borrow_from_left(Tree *tree, Node *parent, int at) {
    Node *child = parent->children[at], *left = parent->children[at - 1];
    if (!child->leaf)
        memmove(&child->children[1], &child->children[0], (size_t)(child->count + 1) * sizeof child->children[0]);
    bool leaf = child->leaf;
    child->leaf = true; // the children are already in place
    open_gap(child, 0);
    child->leaf = leaf;
    child->keys[0] = parent->keys[at - 1];
    child->values[0] = parent->values[at - 1];
    if (!leaf)
        child->children[0] = left->children[left->count];
    left->count--;
    parent->keys[at - 1] = left->keys[left->count];
    parent->values[at - 1] = left->values[left->count];
    tree->borrows++;
}

static void borrow_from_right(Tree *tree, Node *parent, int at) {
    Node *child = parent->children[at], *right = parent->children[at + 1];
    child->keys[child->count] = parent->keys[at];
    child->values[child->count] = parent->values[at];
    child->count++;
    parent->keys[at] = right->keys[0];
    parent->values[at] = right->values[0];
    if (!child->leaf) {
        child->children[child->count] = right->children[0];
        right->children[0] = right->children[1];
    }
    close_gap(right, 0);
    tree->borrows++;
}

// Joins children at and at + 1 and the key between them.
static void merge_children(Tree *tree, Node *parent, int at) {
    Node *left = parent->children[at], *right = parent->children[at + 1];
    left->keys[left->count] = parent->keys[at];
    left->values[left->count] = parent->values[at];
    memcpy(&left->keys[left->count + 1], right->keys, (size_t)right->count * sizeof right->keys[0]);
    memcpy(&left->values[left->count + 1], right->values, (size_t)right->count * sizeof right->values[0]);
    if (!left->leaf)
        memcpy(&left->children[left->count + 1], right->children,
               (size_t)(right->count + 1) * sizeof right->children[0]);
    left->count += right->count + 1;
    close_gap(parent, at);
    free_node(tree, right);
    tree->merges++;
}

// Makes sure that the child can lose a key, and returns the node to go down to.
static Node *strengthen(Tree *tree, Node *parent, int at) {
    Node *child = parent->children[at];
    if (child->count >= DEGREE)
        return child;
    if (at > 0 && parent->children[at - 1]->count >= DEGREE) {
        borrow_from_left(tree, parent, at);
    } else if (at < parent->count && parent->children[at + 1]->count >= DEGREE) {
        borrow_from_right(tree, parent, at);
    } else {
        if (at == parent->count)
            at--;
        merge_children(tree, parent, at);
        child = parent->children[at];
    }
    return child;
}

static bool remove_key(Tree *tree, Node *node, uint32_t key) {
    int at = lower_bound(node, key);
    bool here = at < node->count && node->keys[at] == key;
    if (node->leaf) {
        if (here)
            close_gap(node, at);
        return here;
    }
    if (!here)
        return remove_key(tree, strengthen(tree, node, at), key);
    Node *left = node->children[at], *right = node->children[at + 1];
    if (left->count >= DEGREE) {
        const Node *last = left;
        while (!last->leaf)
            last = last->children[last->count];
        node->keys[at] = last->keys[last->count - 1];
        node->values[at] = last->values[last->count - 1];
        return remove_key(tree, left, node->keys[at]);
    }
    if (right->count >= DEGREE) {
        const Node *first = right;
        while (!first->leaf)
            first = first->children[0];
        node->keys[at] = first->keys[0];
        node->values[at] = first->values[0];
        return remove_key(tree, right, node->keys[at]);
    }
    merge_children(tree, node, at);
    return remove_key(tree, left, key);
}

static bool delete(Tree *tree, uint32_t key) {
    bool removed = remove_key(tree, tree->root, key);
    if (tree->root->count == 0 && !tree->root->leaf) {
        Node *root = tree->root;
        tree->root = root->children[0];
        free_node(tree, root);
    }
    tree->count -= removed;
    return removed;
}

typedef struct {
    uint32_t low, high;
    size_t keys;
    uint64_t sum;
} Scan;

static void scan_range(const Node *node, Scan *scan) {
    for (int at = lower_bound(node, scan->low);; at++) {
        if (!node->leaf)
            scan_range(node->children[at], scan);
        if (at == node->count || node->keys[at] > scan->high)
            return;
        scan->keys++;
        scan->sum += node->values[at] ^ node->keys[at];
    }
}

// The height of the subtree, or -1 when it breaks a rule; its keys must lie in [low, high].
static int check(const Node *node, bool is_root, uint64_t low, uint64_t high) {
    if (node->count > MAX_KEYS || (!is_root && node->count < DEGREE - 1))
        return -1;
    int height = 0;
    for (int at = 0; at <= node->count; at++) {
        uint64_t above = high + 1; // one more than the greatest key allowed in the child at `at`
        if (at < node->count) {
            above = node->keys[at];
            if (above < low || above > high)
                return -1;
        }
        if (!node->leaf) {
            int child = check(node->children[at], false, low, above - 1);
            if (child < 0 || (at > 0 && child != height))
                return -1;
            height = child;
        }
        low = above + 1;
    }
    return height + 1;
}

static void free_subtree(Tree *tree, Node *node) {
    if (!node->leaf)
        for (int at = 0; at <= node->count; at++)
            free_subtree(tree, node->children[at]);
    free_node(tree, node);
}

static uint32_t random_state = 2463534242u;

static uint32_t random_word(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

static void report(const char *label, const Tree *tree) {
    Scan all = {0, UINT32_MAX, 0, 0};
    scan_range(tree->root, &all);
    printf("%s: keys %zu scanned %zu nodes %zu height %d sum %016llx\n", label, tree->count, all.keys, tree->nodes,
           check(tree->root, true, 0, UINT32_MAX), (unsigned long long)all.sum);
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    uint32_t operations = strcmp(size, "large") == 0 ? 400000 : strcmp(size, "medium") == 0 ? 80000 : 5000;
    uint32_t range = operations;
    Tree tree = {0};
    tree.root = new_node(&tree, true);

    for (uint32_t key = 0; key < operations; key += 2)
        insert(&tree, key, (uint64_t)key * key);
    report("even keys", &tree);

    unsigned inserted = 0, deleted = 0, found = 0;
    for (uint32_t k = 0; k < operations; k++) {
        uint32_t key = random_word() % range, action = random_word() % 8;
        if (action < 3) {
            inserted += insert(&tree, key, k);
        } else if (action < 6) {
            deleted += delete(&tree, key);
        } else {
            uint64_t *value = find(&tree, key);
            if (value != NULL) {
                *value += key;
                found++;
            }
        }
    }
    report("mixed", &tree);
    printf("inserted %u deleted %u found %u\n", inserted, deleted, found);

    Scan scan = {0, 0, 0, 0};
    for (uint32_t k = 0; k < operations / 20; k++) {
        scan.low = random_word() % range;
        scan.high = scan.low + random_word() % 200;
        scan_range(tree.root, &scan);
    }
    printf("range scans: keys %zu sum %016llx\n", scan.keys, (unsigned long long)scan.sum);

    for (uint32_t key = 0; key < range; key++)
        if ((key / 64) % 4 != 1)
            delete(&tree, key);
    report("stripes", &tree);
    printf("splits %ld merges %ld borrows %ld\n", tree.splits, tree.merges, tree.borrows);
    for (uint32_t key = 0; key < range; key++)
        delete(&tree, key);
    report("empty", &tree);
    free_subtree(&tree, tree.root);
    printf("nodes left %zu\n", tree.nodes);
    return 0;
}
