"""Idioms of structures: lists, rings, vectors by value, interpreters, tables of functions, hash tables."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Lvalue, scalar_parameter
from aiocg.datasets.generators.random_c.types import F32, F64, I32, U8, U32, U64, Scalar

_OPERATIONS = (
    *("a + b", "a - b", "a ^ b", "a * 3 + b"),
    *("a > b ? a : b", "(a & b) + 1", "a >> (b & 7)", "~a | b", "a % (b | 1)"),
)


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
    words = {"node": kit.name("node"), "nodes": nodes, "change": change, "insert": insert}
    work = nodes * nodes * 22 + nodes * 60
    return kit.define(U32, [scalar_parameter("seed", U32)], work, "list", **words)


def _ring(kit: Kit) -> Function:
    size = kit.rng.choice((8, 16, 32))
    kind = kit.rng.choice((U8, U32, U64))
    parameters = [scalar_parameter("seed", U32), scalar_parameter("count", I32, 0, 64)]
    words = {"ring": kit.name("ring"), "push": kit.name("push"), "pop": kit.name("pop"), "size": size, "E": kind}
    return kit.define(kit.rng.choice((U32, U64)), parameters, 64 * 70, "queue", **words)


def _vectors(kit: Kit) -> Function:
    """Small structures that are passed and returned by value."""
    kind = kit.rng.choice((F64, F32))
    words = {key: kit.name(key) for key in ("vector", "add", "scale", "dot")}
    steps = kit.rng.between(3, 16)
    parameters = [scalar_parameter("x", kind), scalar_parameter("y", kind)]
    drag = kit.pick("0.9375", "0.75", "1.0")
    return kit.define(F64, parameters, steps * 110 + 80, "move", E=kind, steps=steps, drag=drag, **words)


def _complex(kit: Kit) -> Function:
    """Complex numbers, or fractions modulo a prime, by value."""
    rng = kit.rng
    words = {"pair": kit.name("pair"), "times": kit.name("times"), "a": rng.between(1, 9), "d": rng.between(2, 9)}
    modulus = rng.choice((9973, 1009, 4093))
    parameters = [scalar_parameter("n", U32)]
    return kit.define(U32, parameters, 32 * 150, "pair_power", modulus=modulus, **words)


def _interpreter(kit: Kit) -> Function:
    """A machine with a stack or registers, whose program is data."""
    length = kit.length(130)
    parameters = [Array("code", U8, (length,), writable=False), scalar_parameter("input", U32)]
    template = kit.pick("execute/stack", "execute/registers")
    return kit.define(U32, parameters, length * 50, template, length=length, factor=kit.rng.between(3, 99))


def _dispatch(kit: Kit) -> Function:
    """Small functions that are called by a table of pointers."""
    bodies = kit.rng.sample(_OPERATIONS, 4)
    names = [kit.name("operation") for _ in bodies]
    functions = [
        f"static uint32_t {name}(uint32_t a, uint32_t b)\n{{\n    return {body};\n}}\n\n"
        for name, body in zip(names, bodies, strict=True)
    ]
    template = kit.pick("dispatch/table", "dispatch/argument")
    used = functions if template == "dispatch/table" else functions[:2]
    words: dict[str, object] = {
        "table": kit.name("apply"),
        "names": ", ".join(names),
        "first": names[0],
        "second": names[1],
    }
    words |= {"trips": kit.rng.between(4, 10), "functions": "".join(used)}
    return kit.define(U32, [scalar_parameter(name, U32) for name in "ab"], 500, template, **words)


def _memo(kit: Kit) -> Function:
    """A recursion that remembers."""
    most = kit.rng.choice((20, 40, 60))
    step = kit.pick(
        "$recurse(memo, n - 1) + $recurse(memo, n - 2)",
        "$recurse(memo, n / 2) * 3 + $recurse(memo, n / 3)",
        "$recurse(memo, n - 1) ^ $recurse(memo, n / 2) << 1",
    )
    words = {"recurse": kit.name("remember"), "step": step, "most": most, "base": kit.rng.below(9)}
    parameters = [scalar_parameter("n", I32, 0, most)]
    return kit.define(kit.rng.choice((U32, U64)), parameters, most * 70, "memo", **words)


def _tree(kit: Kit) -> Function:
    """A search tree in arrays, filled by a loop and walked by recursion."""
    nodes = kit.rng.choice((8, 16, 24))
    words = {key: kit.name(key) for key in ("tree", "insert", "walk")}
    leaf, visit = kit.pick("depth", "1"), kit.pick("tree->key[at]", "(tree->key[at] ^ depth)")
    work = nodes * nodes * 26 + nodes * 110
    parameters = [scalar_parameter("seed", U32)]
    return kit.define(U32, parameters, work, "grow", nodes=nodes, leaf=leaf, visit=visit, **words)


def _disjoint_sets(kit: Kit) -> Function:
    size = kit.rng.choice((16, 32, 64))
    unions = kit.rng.between(8, 24)
    words = {"find": kit.name("find_root"), "size": size, "unions": unions}
    work = unions * (60 + 2 * 24 * unions) + size * 12
    result = Lvalue("", I32, 1, size)
    return kit.define(result, [scalar_parameter("seed", U32)], work, "unite", **words)


def _hash_table(kit: Kit) -> Function:
    """Open addressing with linear probing."""
    slots = kit.rng.choice((16, 32, 64))
    kind: Scalar = kit.rng.choice((U32, U64))
    entries = kit.rng.between(slots // 4, slots * 3 // 4)
    words = {"slot": kit.name("slot"), "E": kind, "slots": slots, "mask": slots - 1, "entries": entries}
    words |= {"factor": kit.pick("2654435761u", "40503u", "31u"), "distinct": kit.rng.between(slots // 4, 255)}
    work = entries * (60 + 22 * entries) + slots * 20
    return kit.define(U32, [scalar_parameter("seed", U32)], work, "tabulate", **words)


def _bit_set(kit: Kit) -> Function:
    words = {"words": kit.rng.choice((2, 4, 8)), "step": kit.rng.choice((3, 7, 11)), "trips": kit.rng.between(10, 50)}
    change = kit.pick("|=", "^=")
    result = Lvalue("", U32, 0, 512)
    return kit.define(result, [scalar_parameter("seed", U32)], 3000, "bit_set", change=change, **words)


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
