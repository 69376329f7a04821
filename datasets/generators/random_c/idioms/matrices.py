"""Idioms of two dimensions: products, stencils, tables of dynamic programming."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Place, scalar_parameter
from aiocg.datasets.generators.random_c.types import F32, F64, I16, I32, U8, U16, U32, U64, Integer, Scalar

__all__ = ["IDIOMS"]

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
    template = """
    $head
    {
        for ($I i = 0; i < $n; i++) {
            for ($I j = 0; j < $n; j++) {
                $S sum = 0;
                for ($I k = 0; k < $n; k++)
                    sum += $inner;
                c[i][j] = $value;
            }
        }
        return c[$row][$column];
    }
    """
    parameters = [Array(name, kind, (n, n)) for name in "cab"]
    return kit.define(
        "multiply",
        kind,
        parameters,
        28 * n**3 + 30 * n**2,
        template,
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
    template = """
    $head
    {
        for (int32_t i = 0; i < $n; i++) {
            for (int32_t j = i + 1; j < $n; j++) {
                $T swap = a[i][j];
                a[i][j] = a[j][i];
                a[j][i] = swap;
            }
        }
        return a[0][$last];
    }
    """
    return kit.define("transpose", kind, [Array("a", kind, (n, n))], n * n * 24, template, n=n, last=n - 1)


def _vector_product(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, U32))
    rows, columns = kit.rng.choice((4, 8)), 8
    template = """
    $head
    {
        for ($I i = 0; i < $rows; i++) {
            $T sum = 0;
            for ($I j = 0; j < $columns; j++)
                sum += a[i][j] * x[j];
            y[i] = $value;
        }
        return y[$some];
    }
    """
    value = "sum" if isinstance(kind, Integer) else _stored(kind, "sum")
    parameters = [Array("y", kind, (16,)), Array("a", kind, (rows, columns)), Array("x", kind, (8,), writable=False)]
    return kit.define(
        "apply",
        kind,
        parameters,
        rows * columns * 26,
        template,
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
    template = """
    $head
    {
        for ($I i = 1; i < $rows - 1; i++) {
            for ($I j = 1; j < $columns - 1; j++)
                to[i][j] = $value;
        }
        return to[$row][$column];
    }
    """
    parameters = [Array(name, kind, (rows, columns)) for name in ("to", "from")]
    return kit.define(
        "relax",
        kind,
        parameters,
        rows * columns * 44,
        template,
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
    template = """
    $head
    {
        uint32_t total = 0;
        for (int32_t i = 0; i < $rows; i++) {
            uint32_t sum = 0;
            for (int32_t j = 0; j < $columns; j++)
                sum += (uint32_t)($index);
            total = total $combine sum;
        }
        return total;
    }
    """
    parameters = [Array("a", kind, (rows, columns))]
    words = {"rows": rows, "columns": columns, "index": index, "combine": kit.pick("^", "+", "* 31 +")}
    return kit.define("total", U32, parameters, rows * columns * 24 + rows * 20, template, **words)


def _neighbours(kit: Kit) -> Function:
    """One generation of the game of life, on a torus."""
    rows, columns = 8, kit.rng.choice((8, 12))
    template = """
    $head
    {
        int32_t alive = 0;
        for (int32_t y = 0; y < $rows; y++) {
            for (int32_t x = 0; x < $columns; x++) {
                int32_t around = 0;
                for (int32_t dy = -1; dy <= 1; dy++) {
                    for (int32_t dx = -1; dx <= 1; dx++) {
                        if (dx != 0 || dy != 0)
                            around += from[(y + dy + $rows) % $rows][(x + dx + $columns) % $columns] & 1;
                    }
                }
                to[y][x] = around == 3 || (around == 2 && (from[y][x] & 1));
                alive += to[y][x];
            }
        }
        return alive;
    }
    """
    parameters = [Array(name, U8, (rows, columns)) for name in ("to", "from")]
    result = Place("", I32, 0, rows * columns)
    return kit.define("live", result, parameters, rows * columns * 320, template, rows=rows, columns=columns)


def _shortest_paths(kit: Kit) -> Function:
    """Floyd and Warshall's, on a graph made from a seed."""
    n = kit.rng.choice([n for n in (5, 6, 8, 10) if 40 * n**3 <= kit.limit] or [4])
    template = """
    $head
    {
        uint32_t distance[$n][$n] = {0};
        for (int32_t i = 0; i < $n; i++) {
            for (int32_t j = 0; j < $n; j++) {
                seed = seed * 1103515245u + 12345u;
                distance[i][j] = i == j ? 0 : 1 + (seed >> 16) % $most;
            }
        }
        for (int32_t k = 0; k < $n; k++) {
            for (int32_t i = 0; i < $n; i++) {
                for (int32_t j = 0; j < $n; j++) {
                    if (distance[i][k] + distance[k][j] < distance[i][j])
                        distance[i][j] = distance[i][k] + distance[k][j];
                }
            }
        }
        return distance[0][$n - 1] * 1000 + distance[$n / 2][1];
    }
    """
    parameters = [scalar_parameter("seed", U32)]
    work = 50 * n**3 + 40 * n**2
    return kit.define("paths", U32, parameters, work, template, n=n, most=kit.rng.choice((100, 64, 250)))


def _common_subsequence(kit: Kit) -> Function:
    length = kit.rng.choice([n for n in (8, 16, 32) if 40 * n**2 <= kit.limit] or [8])
    template = """
    $head
    {
        uint16_t table[$length + 1][$length + 1];
        for (int32_t i = 0; i <= $length; i++) {
            for (int32_t j = 0; j <= $length; j++) {
                if (i == 0 || j == 0)
                    table[i][j] = 0;
                else if (a[i - 1] == b[j - 1])
                    table[i][j] = (uint16_t)(table[i - 1][j - 1] + 1);
                else
                    table[i][j] = table[i - 1][j] > table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
            }
        }
        return table[$length][$length];
    }
    """
    kind = kit.rng.choice((U8, U16, I32))
    parameters = [Array(name, kind, (length,), writable=False) for name in "ab"]
    work = 46 * (length + 1) ** 2
    return kit.define("common", Place("", U32, 0, length), parameters, work, template, length=length)


def _knapsack(kit: Kit) -> Function:
    capacity, items = kit.rng.choice((20, 40, 60)), kit.rng.between(4, 8)
    template = """
    $head
    {
        static const uint8_t weights[$items] = {$weights}, values[$items] = {$values};
        uint32_t best[$capacity + 1] = {0};
        for ($I i = 0; i < $items; i++) {
            for (int32_t room = capacity; room >= weights[i]; room--) {
                uint32_t with = best[room - weights[i]] + values[i];
                if (with > best[room])
                    best[room] = with;
            }
        }
        return best[capacity];
    }
    """
    return kit.define(
        "knapsack",
        Place("", U32, 0, 255 * items),
        [scalar_parameter("capacity", I32, 0, capacity)],
        capacity * items * 32,
        template,
        items=items,
        capacity=capacity,
        weights=", ".join(str(kit.rng.between(1, 20)) for _ in range(items)),
        values=", ".join(str(kit.rng.between(1, 200)) for _ in range(items)),
    )


def _binomials(kit: Kit) -> Function:
    """Pascal's triangle, row by row."""
    kind = kit.rng.choice((U32, U64))
    rows = kit.rng.choice((12, 20, 30))
    template = """
    $head
    {
        $T row[$rows + 1] = {1};
        for (int32_t n = 1; n <= rows; n++) {
            for (int32_t k = n; k > 0; k--)
                row[k] += row[k - 1];
        }
        return row[rows / 2];
    }
    """
    parameters = [scalar_parameter("rows", I32, 1, rows)]
    return kit.define("binomial", kind, parameters, rows**2 * 18, template, rows=rows)


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
