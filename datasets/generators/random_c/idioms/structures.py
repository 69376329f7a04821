"""Idioms of structures: lists, rings, vectors by value, interpreters, tables of functions, hash tables."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Place, scalar_parameter
from aiocg.datasets.generators.random_c.types import F32, F64, I32, U8, U32, U64, Scalar

__all__ = ["IDIOMS"]


def _linked_list(kit: Kit) -> Function:
    """A list that is threaded through an array: filled, sorted or reversed, and summed."""
    nodes = kit.rng.choice((8, 12, 16, 24))
    change = kit.pick(
        """
        int32_t before = -1;
        while (head >= 0) {
            int32_t next = list[head].next;
            list[head].next = before;
            before = head;
            head = next;
        }
        head = before;""",
        """
        for (int32_t at = head; at >= 0 && list[at].next >= 0; at = list[at].next) {
            if (list[list[at].next].value % 3 == 0)
                list[at].next = list[list[at].next].next;
        }""",
        "",
    )
    insert = kit.pick(
        "list[i].next = head;\n            head = i;",
        "int32_t *link = &head;\n            while (*link >= 0 && list[*link].value < seed)\n"
        "                link = &list[*link].next;\n            list[i].next = *link;\n            *link = i;",
    )
    template = """
    struct $node {
        uint32_t value;
        int32_t next;
    };

    $head
    {
        struct $node list[$nodes];
        int32_t head = -1;
        uint32_t sum = 0;
        for (int32_t i = 0; i < $nodes; i++) {
            seed = seed * 1664525u + 1013904223u;
            list[i].value = seed;
            $insert
        }$change
        for (int32_t at = head; at >= 0; at = list[at].next)
            sum = sum * 31 + list[at].value;
        return sum;
    }
    """
    words = {"node": kit.name("node"), "nodes": nodes, "change": change, "insert": insert}
    work = nodes * nodes * 22 + nodes * 60
    return kit.define("list", U32, [scalar_parameter("seed", U32)], work, template, **words)


def _ring(kit: Kit) -> Function:
    size = kit.rng.choice((8, 16, 32))
    kind = kit.rng.choice((U8, U32, U64))
    template = """
    struct $ring {
        $E data[$size];
        uint32_t begin, count;
    };

    static int32_t $push(struct $ring *ring, $E value)
    {
        if (ring->count == $size)
            return 0;
        ring->data[(ring->begin + ring->count) % $size] = value;
        ring->count++;
        return 1;
    }

    static $E $pop(struct $ring *ring)
    {
        $E value = ring->data[ring->begin];
        ring->begin = (ring->begin + 1) % $size;
        ring->count--;
        return value;
    }

    $head
    {
        struct $ring ring = {{0}, 0, 0};
        $T total = 0;
        for (int32_t i = 0; i < count; i++) {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            if (seed % 3 != 0)
                total += (uint32_t)$push(&ring, ($E)seed);
            else if (ring.count > 0)
                total = total * 17 + ($T)$pop(&ring);
        }
        return total;
    }
    """
    parameters = [scalar_parameter("seed", U32), scalar_parameter("count", I32, 0, 64)]
    words = {"ring": kit.name("ring"), "push": kit.name("push"), "pop": kit.name("pop"), "size": size, "E": kind}
    return kit.define("queue", kit.rng.choice((U32, U64)), parameters, 64 * 70, template, **words)


def _vectors(kit: Kit) -> Function:
    """Small structures that are passed and returned by value."""
    kind = kit.rng.choice((F64, F32))
    template = """
    struct $vector {
        $E x, y, z;
    };

    static struct $vector $add(struct $vector a, struct $vector b)
    {
        struct $vector sum = {a.x + b.x, a.y + b.y, a.z + b.z};
        return sum;
    }

    static struct $vector $scale(struct $vector a, $E factor)
    {
        a.x *= factor;
        a.y *= factor;
        a.z *= factor;
        return a;
    }

    static $E $dot(const struct $vector *a, const struct $vector *b)
    {
        return a->x * b->x + a->y * b->y + a->z * b->z;
    }

    $head
    {
        struct $vector place = {x, y, 1}, speed = {1, ($E)0.5, ($E)-0.25};
        for (int32_t i = 0; i < $steps; i++) {
            place = $add(place, $scale(speed, ($E)0.125));
            speed = $scale(speed, ($E)$drag);
        }
        return bounded($dot(&place, &speed));
    }
    """
    words = {key: kit.name(key) for key in ("vector", "add", "scale", "dot")}
    steps = kit.rng.between(3, 16)
    parameters = [scalar_parameter("x", kind), scalar_parameter("y", kind)]
    drag = kit.pick("0.9375", "0.75", "1.0")
    return kit.define("move", F64, parameters, steps * 110 + 80, template, E=kind, steps=steps, drag=drag, **words)


def _complex(kit: Kit) -> Function:
    """Complex numbers, or fractions modulo a prime, by value."""
    template = """
    struct $pair {
        uint32_t a, b;
    };

    static inline struct $pair $times(struct $pair x, struct $pair y)
    {
        struct $pair product;
        product.a = (x.a * y.a + $d * x.b * y.b) % $modulus;
        product.b = (x.a * y.b + x.b * y.a) % $modulus;
        return product;
    }

    $head
    {
        struct $pair result = {1, 0}, base = {$a, 1};
        for (; n > 0; n >>= 1) {
            if (n & 1)
                result = $times(result, base);
            base = $times(base, base);
        }
        return result.a * 10007 + result.b;
    }
    """
    rng = kit.rng
    words = {"pair": kit.name("pair"), "times": kit.name("times"), "a": rng.between(1, 9), "d": rng.between(2, 9)}
    modulus = rng.choice((9973, 1009, 4093))
    parameters = [scalar_parameter("n", U32)]
    return kit.define("pair_power", U32, parameters, 32 * 150, template, modulus=modulus, **words)


def _interpreter(kit: Kit) -> Function:
    """A machine with a stack or registers, whose program is data."""
    length = kit.length(130)
    stack = """
    $head
    {
        uint32_t stack[8] = {0};
        uint32_t top = 0;
        for (int32_t pc = 0; pc < $length; pc++) {
            uint32_t *a = &stack[top & 7], *b = &stack[(top + 7) & 7];
            switch (code[pc] % 8) {
            case 0:
                top++;
                stack[top & 7] = input;
                break;
            case 1:
                *b += *a;
                top--;
                break;
            case 2:
                *b -= *a;
                top--;
                break;
            case 3:
                *a = *a * $factor + code[pc];
                break;
            case 4:
                *a ^= *b << 3;
                break;
            case 5:
                if (*a & 1)
                    pc++;
                break;
            case 6:
                input = *a;
                break;
            default:
                top += *b > *a;
                break;
            }
        }
        return stack[top & 7] ^ input;
    }
    """
    registers = """
    $head
    {
        uint32_t r[4] = {input, 1, 2, $factor};
        for (int32_t pc = 0; pc < $length; pc++) {
            uint8_t op = code[pc];
            uint32_t *to = &r[op & 3], from = r[op >> 2 & 3];
            switch (op >> 4 & 7) {
            case 0: *to = from; break;
            case 1: *to += from; break;
            case 2: *to -= from; break;
            case 3: *to *= from; break;
            case 4: *to ^= from; break;
            case 5: *to >>= from & 7; break;
            case 6: *to = ~from; break;
            case 7: if (from > *to) pc++; break;
            }
        }
        return r[0] + r[1] * 3 + r[2] * 5 + r[3] * 7;
    }
    """
    parameters = [Array("code", U8, (length,), writable=False), scalar_parameter("input", U32)]
    template = kit.pick(stack, registers)
    return kit.define("execute", U32, parameters, length * 50, template, length=length, factor=kit.rng.between(3, 99))


def _dispatch(kit: Kit) -> Function:
    """Small functions that are called by a table of pointers."""
    bodies = kit.rng.sample(
        (
            "a + b",
            "a - b",
            "a ^ b",
            "a * 3 + b",
            "a > b ? a : b",
            "(a & b) + 1",
            "a >> (b & 7)",
            "~a | b",
            "a % (b | 1)",
        ),
        4,
    )
    names = [kit.name("operation") for _ in bodies]
    functions = "\n\n".join(
        f"static uint32_t {name}(uint32_t a, uint32_t b)\n{{\n    return {body};\n}}"
        for name, body in zip(names, bodies, strict=True)
    )
    table = """
    static uint32_t (*const $table[4])(uint32_t, uint32_t) = {$names};

    $head
    {
        uint32_t value = a;
        for (int32_t i = 0; i < $trips; i++)
            value = $table[(b >> (2 * (i & 15))) & 3](value, b + (uint32_t)i);
        return value;
    }
    """
    argument = """
    static uint32_t $table(uint32_t (*operation)(uint32_t, uint32_t), uint32_t a, uint32_t b)
    {
        for (int32_t i = 0; i < $trips; i++)
            a = operation(a, b + (uint32_t)i);
        return a;
    }

    $head
    {
        return b & 1 ? $table($first, a, b) : $table($second, a, b);
    }
    """
    template = kit.pick(table, argument)
    filled = kit.define(
        "dispatch",
        U32,
        [scalar_parameter("a", U32), scalar_parameter("b", U32)],
        500,
        template,
        table=kit.name("apply"),
        names=", ".join(names),
        first=names[0],
        second=names[1],
        trips=kit.rng.between(4, 10),
    )
    used = functions if template is table else functions.split("\n\n")[0] + "\n\n" + functions.split("\n\n")[1]
    return Function(filled.name, filled.result, filled.parameters, f"{used}\n\n{filled.text}", filled.work, True)


def _memo(kit: Kit) -> Function:
    """A recursion that remembers."""
    most = kit.rng.choice((20, 40, 60))
    step = kit.pick("f($, n - 1) + f($, n - 2)", "f($, n / 2) * 3 + f($, n / 3)", "f($, n - 1) ^ f($, n / 2) << 1")
    recurse = kit.name("remember")
    template = """
    static $T $recurse($T *memo, int32_t n)
    {
        if (n < 3)
            return (uint32_t)n + $base;
        if (memo[n] == 0)
            memo[n] = ($step) | 1;
        return memo[n];
    }

    $head
    {
        $T memo[$most + 1] = {0};
        return $recurse(memo, n);
    }
    """
    step = step.replace("f($", f"{recurse}(memo")
    words = {"recurse": recurse, "step": step, "most": most, "base": kit.rng.below(9)}
    parameters = [scalar_parameter("n", I32, 0, most)]
    return kit.define("memo", kit.rng.choice((U32, U64)), parameters, most * 70, template, **words)


def _tree(kit: Kit) -> Function:
    """A search tree in arrays, filled by a loop and walked by recursion."""
    nodes = kit.rng.choice((8, 16, 24))
    template = """
    struct $tree {
        uint32_t key[$nodes];
        int8_t left[$nodes], right[$nodes];
        int32_t count;
    };

    static void $insert(struct $tree *tree, uint32_t key)
    {
        int32_t at = 0, fresh = tree->count++;
        tree->key[fresh] = key;
        tree->left[fresh] = tree->right[fresh] = -1;
        while (at != fresh) {
            int8_t *child = key < tree->key[at] ? &tree->left[at] : &tree->right[at];
            if (*child < 0)
                *child = (int8_t)fresh;
            at = *child;
        }
    }

    static uint32_t $walk(const struct $tree *tree, int32_t at, uint32_t depth)
    {
        if (at < 0)
            return $leaf;
        return $walk(tree, tree->left[at], depth + 1) * 31 + $visit + $walk(tree, tree->right[at], depth + 1);
    }

    $head
    {
        struct $tree tree;
        tree.count = 0;
        for (int32_t i = 0; i < $nodes; i++) {
            seed = seed * 69069u + 1u;
            $insert(&tree, seed >> 8);
        }
        return $walk(&tree, 0, 0);
    }
    """
    words = {key: kit.name(key) for key in ("tree", "insert", "walk")}
    leaf, visit = kit.pick("depth", "1"), kit.pick("tree->key[at]", "(tree->key[at] ^ depth)")
    work = nodes * nodes * 26 + nodes * 110
    parameters = [scalar_parameter("seed", U32)]
    return kit.define("grow", U32, parameters, work, template, nodes=nodes, leaf=leaf, visit=visit, **words)


def _disjoint_sets(kit: Kit) -> Function:
    size = kit.rng.choice((16, 32, 64))
    template = """
    static int32_t $find(uint8_t *parent, int32_t x)
    {
        while (parent[x] != x) {
            parent[x] = parent[parent[x]];
            x = parent[x];
        }
        return x;
    }

    $head
    {
        uint8_t parent[$size];
        int32_t sets = $size;
        for (int32_t i = 0; i < $size; i++)
            parent[i] = (uint8_t)i;
        for (int32_t i = 0; i < $unions; i++) {
            seed = seed * 1103515245u + 12345u;
            int32_t a = $find(parent, (int32_t)(seed >> 8) & ($size - 1));
            int32_t b = $find(parent, (int32_t)(seed >> 20) & ($size - 1));
            if (a != b) {
                parent[a] = (uint8_t)b;
                sets--;
            }
        }
        return sets;
    }
    """
    unions = kit.rng.between(8, 24)
    words = {"find": kit.name("find_root"), "size": size, "unions": unions}
    work = unions * (60 + 2 * 24 * unions) + size * 12
    result = Place("", I32, 1, size)
    return kit.define("unite", result, [scalar_parameter("seed", U32)], work, template, **words)


def _hash_table(kit: Kit) -> Function:
    """Open addressing with linear probing."""
    slots = kit.rng.choice((16, 32, 64))
    kind: Scalar = kit.rng.choice((U32, U64))
    template = """
    static uint32_t $slot(const $E *keys, $E key)
    {
        uint32_t at = (uint32_t)(key * $factor) >> 4 & $mask;
        while (keys[at] != 0 && keys[at] != key)
            at = (at + 1) & $mask;
        return at;
    }

    $head
    {
        $E keys[$slots] = {0};
        uint16_t counts[$slots] = {0};
        uint32_t sum = 0;
        for (int32_t i = 0; i < $entries; i++) {
            seed = seed * 22695477u + 1u;
            $E key = 1 + (seed >> 16) % $distinct;
            uint32_t at = $slot(keys, key);
            keys[at] = key;
            counts[at]++;
        }
        for (uint32_t at = 0; at < $slots; at++)
            sum = sum * 33 + counts[at] + (uint32_t)keys[at];
        return sum;
    }
    """
    entries = kit.rng.between(slots // 4, slots * 3 // 4)
    words = {"slot": kit.name("slot"), "E": kind, "slots": slots, "mask": slots - 1, "entries": entries}
    words |= {"factor": kit.pick("2654435761u", "40503u", "31u"), "distinct": kit.rng.between(slots // 4, 255)}
    work = entries * (60 + 22 * entries) + slots * 20
    return kit.define("tabulate", U32, [scalar_parameter("seed", U32)], work, template, **words)


def _bit_set(kit: Kit) -> Function:
    words = {"words": kit.rng.choice((2, 4, 8)), "step": kit.rng.choice((3, 7, 11)), "trips": kit.rng.between(10, 50)}
    template = """
    $head
    {
        uint64_t set[$words] = {0};
        uint32_t at = seed, count = 0;
        for (int32_t i = 0; i < $trips; i++) {
            set[at / 64 % $words] $change 1ull << (at % 64);
            at = at * 5 + $step;
        }
        for (int32_t w = 0; w < $words; w++) {
            for (uint64_t rest = set[w]; rest != 0; rest &= rest - 1)
                count++;
        }
        return count;
    }
    """
    change = kit.pick("|=", "^=")
    result = Place("", U32, 0, 512)
    return kit.define("bit_set", result, [scalar_parameter("seed", U32)], 3000, template, change=change, **words)


IDIOMS: tuple[Idiom, ...] = (
    _linked_list,
    _ring,
    _vectors,
    _complex,
    _interpreter,
    _interpreter,
    _dispatch,
    _dispatch,
    _dispatch,
    _memo,
    _tree,
    _disjoint_sets,
    _hash_table,
    _bit_set,
)
