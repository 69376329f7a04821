"""Idioms of two dimensions: products, stencils, tables of dynamic programming."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Lvalue, scalar_parameter
from aiocg.datasets.generators.random_c.types import F32, F64, I16, I32, U8, U16, U32, U64, Integer, Scalar

_ELEMENTS: tuple[Scalar, ...] = (F64, F64, F32, U32, U32, I16, U8)


def _stored(kind: Scalar, text: str) -> str:
    """Convert a sum to an element."""
    return f"({kind.name})({text})" if isinstance(kind, Integer) else f"({kind.name})bounded({text})"


def _product(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    n = kit.rng.choice([n for n in (4, 6, 8, 12) if 26 * n**3 <= kit.limit] or [4])
    total: Scalar = kind if kind in (F32, F64) else U32
    inner = kit.pick("a[i][k] * b[k][j]", "a[i][k] * b[j][k]")
    if isinstance(kind, Integer):
        inner = f"(uint32_t){inner.split(' * ')[0]} * (uint32_t){inner.split(' * ')[1]}"
    parameters = [Array(name, kind, (n, n)) for name in "cab"]
    return kit.define(
        kind,
        parameters,
        28 * n**3 + 30 * n**2,
        "multiply",
        n=n,
        S=total,
        inner=inner,
        value=_stored(kind, "sum"),
        row=kit.rng.below(n),
        column=kit.rng.below(n),
    )


def _transposed(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    n = kit.rng.choice((4, 6, 8, 12))
    return kit.define(kind, [Array("a", kind, (n, n))], n * n * 24, "transpose", n=n, last=n - 1)


def _vector_product(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, U32))
    rows, columns = kit.rng.choice((4, 8)), 8
    value = "sum" if isinstance(kind, Integer) else _stored(kind, "sum")
    parameters = [Array("y", kind, (16,)), Array("a", kind, (rows, columns)), Array("x", kind, (8,), writable=False)]
    return kit.define(
        kind,
        parameters,
        rows * columns * 26,
        "apply",
        rows=rows,
        columns=columns,
        value=value,
        some=kit.rng.below(rows),
    )


def _plane_stencil(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, U32, U16, U8))
    rows, columns = kit.rng.choice((6, 8)), kit.rng.choice((8, 12))
    value = "(from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1])"
    value = _stored(kind, f"{value} / 4" if isinstance(kind, Integer) else f"0.25 * {value}")
    parameters = [Array(name, kind, (rows, columns)) for name in ("to", "from")]
    return kit.define(
        kind,
        parameters,
        rows * columns * 44,
        "relax",
        rows=rows,
        columns=columns,
        value=value,
        row=kit.rng.below(rows),
        column=kit.rng.below(columns),
    )


def _row_sums(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, U32, I16))
    rows, columns = kit.rng.choice((4, 6, 8)), kit.rng.choice((4, 8, 12))
    index = kit.pick("a[i][j]", "a[i][j] * (i + 1)", "a[i][j] ^ j")
    parameters = [Array("a", kind, (rows, columns))]
    words = {"rows": rows, "columns": columns, "index": index, "combine": kit.pick("^", "+", "* 31 +")}
    return kit.define(U32, parameters, rows * columns * 24 + rows * 20, "total", **words)


def _neighbours(kit: Kit) -> Function:
    """One generation of the game of life, on a torus."""
    rows, columns = 8, kit.rng.choice((8, 12))
    parameters = [Array(name, U8, (rows, columns)) for name in ("to", "from")]
    result = Lvalue("", I32, 0, rows * columns)
    return kit.define(result, parameters, rows * columns * 320, "live", rows=rows, columns=columns)


def _shortest_paths(kit: Kit) -> Function:
    """Floyd and Warshall's, on a graph made from a seed."""
    n = kit.rng.choice([n for n in (5, 6, 8, 10) if 40 * n**3 <= kit.limit] or [4])
    parameters = [scalar_parameter("seed", U32)]
    work = 50 * n**3 + 40 * n**2
    return kit.define(U32, parameters, work, "paths", n=n, most=kit.rng.choice((100, 64, 250)))


def _common_subsequence(kit: Kit) -> Function:
    length = kit.rng.choice([n for n in (8, 16, 32) if 40 * n**2 <= kit.limit] or [8])
    kind = kit.rng.choice((U8, U16, I32))
    parameters = [Array(name, kind, (length,), writable=False) for name in "ab"]
    work = 46 * (length + 1) ** 2
    return kit.define(Lvalue("", U32, 0, length), parameters, work, "common", length=length)


def _knapsack(kit: Kit) -> Function:
    capacity, items = kit.rng.choice((20, 40, 60)), kit.rng.between(4, 8)
    return kit.define(
        Lvalue("", U32, 0, 255 * items),
        [scalar_parameter("capacity", I32, 0, capacity)],
        capacity * items * 32,
        "knapsack",
        items=items,
        capacity=capacity,
        weights=", ".join(str(kit.rng.between(1, 20)) for _ in range(items)),
        values=", ".join(str(kit.rng.between(1, 200)) for _ in range(items)),
    )


def _binomials(kit: Kit) -> Function:
    """Pascal's triangle, row by row."""
    kind = kit.rng.choice((U32, U64))
    rows = kit.rng.choice((12, 20, 30))
    parameters = [scalar_parameter("rows", I32, 1, rows)]
    return kit.define(kind, parameters, rows**2 * 18, "binomial", rows=rows)


IDIOMS: tuple[Idiom, ...] = (
    _product,
    _product,
    _transposed,
    _vector_product,
    _plane_stencil,
    _row_sums,
    _neighbours,
    _shortest_paths,
    _common_subsequence,
    _knapsack,
    _binomials,
)
