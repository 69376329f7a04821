// rbtree: inserts into and deletes from a red-black tree of an interval set, checking its invariants on the way
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { RED, BLACK } Colour;

typedef struct Node {
    struct Node *parent, *left, *right;
    Colour colour;
    int low, high; // the interval; `low` is the key
    int highest;   // the greatest `high` in this subtree
} Node;

typedef struct {
    Node nil; // the shared leaf: black, its parent is scratch space for deletion
    Node *root;
    size_t count;
    long rotations;
} Tree;

static void tree_init(Tree *tree) {
    tree->nil.parent = tree->nil.left = tree->nil.right = &tree->nil;
    tree->nil.colour = BLACK;
    tree->nil.low = tree->nil.high = tree->nil.highest = INT32_MIN;
    tree->root = &tree->nil;
    tree->count = 0;
    tree->rotations = 0;
}

static int max_int(int a, int b) { return a > b ? a : b; }

static void update_highest(Node *node) {
    node->highest = max_int(node->high, max_int(node->left->highest, node->right->highest));
}

static void update_upwards(Tree *tree, Node *node) {
    for (; node != &tree->nil; node = node->parent)
        update_highest(node);
}

static void replace_child(Tree *tree, Node *old, Node *new) {
    if (old->parent == &tree->nil)
        tree->root = new;
    else if (old->parent->left == old)
        old->parent->left = new;
    else
        old->parent->right = new;
    new->parent = old->parent;
}

static void rotate_left(Tree *tree, Node *node) {
    Node *right = node->right;
    node->right = right->left;
    if (right->left != &tree->nil)
        right->left->parent = node;
    replace_child(tree, node, right);
    right->left = node;
    node->parent = right;
    update_highest(node);
    update_highest(right);
    tree->rotations++;
}

static void rotate_right(Tree *tree, Node *node) {
    Node *left = node->left;
    node->left = left->right;
    if (left->right != &tree->nil)
        left->right->parent = node;
    replace_child(tree, node, left);
    left->right = node;
    node->parent = left;
    update_highest(node);
    update_highest(left);
    tree->rotations++;
}

static void repair_after_insert(Tree *tree, Node *node) {
    while (node->parent->colour == RED) {
        Node *parent = node->parent, *grandparent = parent->parent;
        bool on_left = parent == grandparent->left;
        Node *uncle = on_left ? grandparent->right : grandparent->left;
        if (uncle->colour == RED) {
            parent->colour = uncle->colour = BLACK;
            grandparent->colour = RED;
            node = grandparent;
        } else if (on_left) {
            if (node == parent->right) {
                rotate_left(tree, parent);
                parent = node;
            }
            parent->colour = BLACK;
            grandparent->colour = RED;
            rotate_right(tree, grandparent);
            break;
        } else {
            if (node == parent->left) {
                rotate_right(tree, parent);
                parent = node;
            }
            parent->colour = BLACK;
            grandparent->colour = RED;
            rotate_left(tree, grandparent);
            break;
        }
    }
    tree->root->colour = BLACK;
}

static bool tree_insert(Tree *tree, int low, int high) {
    Node *parent = &tree->nil, **link = &tree->root;
    while (*link != &tree->nil) {
        parent = *link;
        if (low == parent->low)
            return false;
        link = low < parent->low ? &parent->left : &parent->right;
    }
    Node *node = malloc(sizeof *node);
    if (node == NULL) {
        puts("out of memory");
        exit(1);
    }
    *node = (Node){parent, &tree->nil, &tree->nil, RED, low, high, high};
    *link = node;
    tree->count++;
    update_upwards(tree, parent);
    repair_after_insert(tree, node);
    return true;
}

static Node *tree_find(Tree *tree, int low) {
    Node *node = tree->root;
    while (node != &tree->nil && node->low != low)
        node = low < node->low ? node->left : node->right;
    return node == &tree->nil ? NULL : node;
}

static Node *leftmost(Tree *tree, Node *node) {
    while (node->left != &tree->nil)
        node = node->left;
    return node;
}

static void repair_after_delete(Tree *tree, Node *node) {
    while (node != tree->root && node->colour == BLACK) {
        Node *parent = node->parent;
        bool on_left = node == parent->left;
        Node *sibling = on_left ? parent->right : parent->left;
        if (sibling->colour == RED) {
            sibling->colour = BLACK;
            parent->colour = RED;
            if (on_left)
                rotate_left(tree, parent);
            else
                rotate_right(tree, parent);
            sibling = on_left ? parent->right : parent->left;
        }
        if (sibling->left->colour == BLACK && sibling->right->colour == BLACK) {
            sibling->colour = RED;
            node = parent;
            continue;
        }
        if (on_left) {
            if (sibling->right->colour == BLACK) {
                sibling->left->colour = BLACK;
                sibling->colour = RED;
                rotate_right(tree, sibling);
                sibling = parent->right;
            }
            sibling->colour = parent->colour;
            parent->colour = sibling->right->colour = BLACK;
            rotate_left(tree, parent);
        } else {
            if (sibling->left->colour == BLACK) {
                sibling->right->colour = BLACK;
                sibling->colour = RED;
                rotate_left(tree, sibling);
                sibling = parent->left;
            }
            sibling->colour = parent->colour;
            parent->colour = sibling->left->colour = BLACK;
            rotate_right(tree, parent);
        }
        node = tree->root;
    }
    node->colour = BLACK;
}

static bool tree_delete(Tree *tree, int low) {
    Node *node = tree_find(tree, low);
    if (node == NULL)
        return false;
    Node *child, *changed;
    Colour removed = node->colour;
    if (node->left == &tree->nil || node->right == &tree->nil) {
        child = node->left == &tree->nil ? node->right : node->left;
        changed = node->parent;
        replace_child(tree, node, child);
    } else {
        Node *next = leftmost(tree, node->right);
        removed = next->colour;
        child = next->right;
        changed = next;
        if (next->parent == node) {
            child->parent = next;
        } else {
            changed = next->parent;
            replace_child(tree, next, child);
            next->right = node->right;
            next->right->parent = next;
        }
        replace_child(tree, node, next);
        next->left = node->left;
        next->left->parent = next;
        next->colour = node->colour;
    }
    update_upwards(tree, changed);
    if (removed == BLACK)
        repair_after_delete(tree, child);
    free(node);
    tree->count--;
    return true;
}

// Counts the stored intervals that share a point with [low, high].
static int count_overlaps(const Tree *tree, const Node *node, int low, int high) {
    if (node == &tree->nil || node->highest < low)
        return 0;
    int count = count_overlaps(tree, node->left, low, high);
    if (node->low <= high) {
        count += node->high >= low;
        count += count_overlaps(tree, node->right, low, high);
    }
    return count;
}

// The black height of the subtree, or -1 when any rule of the tree is broken in it.
static int check_subtree(const Tree *tree, const Node *node, long low, long high) {
    if (node == &tree->nil)
        return 0;
    if (node->low <= low || node->low >= high)
        return -1;
    if (node->colour == RED && (node->left->colour == RED || node->right->colour == RED))
        return -1;
    if (node->highest != max_int(node->high, max_int(node->left->highest, node->right->highest)))
        return -1;
    int left = check_subtree(tree, node->left, low, node->low);
    int right = check_subtree(tree, node->right, node->low, high);
    if (left < 0 || left != right)
        return -1;
    return left + (node->colour == BLACK);
}

static int height(const Tree *tree, const Node *node) {
    if (node == &tree->nil)
        return 0;
    return 1 + max_int(height(tree, node->left), height(tree, node->right));
}

static uint32_t hash_in_order(const Tree *tree, const Node *node, uint32_t hash) {
    if (node == &tree->nil)
        return hash;
    hash = hash_in_order(tree, node->left, hash);
    hash = (hash ^ (uint32_t)node->low) * 16777619u;
    hash = (hash ^ (uint32_t)node->high) * 16777619u;
    return hash_in_order(tree, node->right, hash);
}

static void free_subtree(Tree *tree, Node *node) {
    if (node == &tree->nil)
        return;
    free_subtree(tree, node->left);
    free_subtree(tree, node->right);
    free(node);
}

static uint32_t random_state = 12345;

static int random_below(int bound) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return (int)(random_state % (uint32_t)bound);
}

static void report(const char *label, Tree *tree) {
    int black_height = check_subtree(tree, tree->root, (long)INT32_MIN - 1, (long)INT32_MAX + 1);
    printf("%s: count %zu height %d black height %d rotations %ld hash %08x\n", label, tree->count,
           height(tree, tree->root), black_height, tree->rotations,
           (unsigned)hash_in_order(tree, tree->root, 2166136261u));
}

int main(int argc, char **argv) {
    const char *size = argc > 1 ? argv[1] : "small";
    int operations = strcmp(size, "large") == 0 ? 200000 : strcmp(size, "medium") == 0 ? 40000 : 4000;
    int key_range = operations * 2;
    Tree tree;
    tree_init(&tree);

    for (int k = 0; k < operations / 4; k++)
        tree_insert(&tree, k, k + random_below(20));
    report("ascending", &tree);

    int inserted = 0, deleted = 0, broken = 0;
    for (int k = 0; k < operations; k++) {
        int low = random_below(key_range);
        if (random_below(5) < 3)
            inserted += tree_insert(&tree, low, low + random_below(100));
        else
            deleted += tree_delete(&tree, low);
        if (k % (operations / 10) == 0)
            broken += check_subtree(&tree, tree.root, (long)INT32_MIN - 1, (long)INT32_MAX + 1) < 0;
    }
    report("mixed", &tree);

    long overlaps = 0;
    for (int k = 0; k < operations; k++) {
        int low = random_below(key_range);
        overlaps += count_overlaps(&tree, tree.root, low, low + random_below(50));
    }
    printf("inserted %d deleted %d broken %d overlaps %ld\n", inserted, deleted, broken, overlaps);

    for (int low = 0; low < key_range; low++)
        if (low % 3 != 0)
            tree_delete(&tree, low);
    report("thirds", &tree);
    while (tree.count > 10) {
        if (!tree_delete(&tree, tree.root->low))
            return 1;
    }
    report("last ten", &tree);
    free_subtree(&tree, tree.root);
    return 0;
}
