"""Idioms of arrays: reductions, filters, prefix sums, histograms, copies."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Lvalue, scalar_parameter
from aiocg.datasets.generators.random_c.types import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    U8,
    U16,
    U32,
    U64,
    Integer,
    Scalar,
)

_ELEMENTS: tuple[Scalar, ...] = (*INTEGERS, I32, I32, U8, F64, F64, F32)


def _count(length: int) -> Lvalue:
    return scalar_parameter("count", I32, 1, length)


def _sum(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(20)
    integer = isinstance(kind, Integer)
    step = kit.pick(
        "total += data[i];", "total += data[i] * data[i];", "if (data[i] > 0)\n            total += data[i];"
    )
    total: Scalar = kit.rng.choice((U32, U64)) if integer else F64
    if integer:
        step = step.replace("data[i] * data[i]", f"({total.name})data[i] * ({total.name})data[i]")
    end = "total" if integer else kit.pick("bounded(total)", "bounded(total / count)")
    parameters = [Array("data", kind, (length,), writable=False), _count(length)]
    return kit.define(total, parameters, length * 20, "sum", step=step, end=end)


def _extreme(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(18)
    compare = kit.pick("<", ">", "<=", ">=")
    parameters = [Array("data", kind, (length,), writable=False), _count(length)]
    lvalue, result = kit.rng.choice(
        ((Lvalue("", kind, kind.low, kind.high), "best"), (Lvalue("", I32, 0, length - 1), "where"))
    )
    return kit.define(lvalue, parameters, length * 24, "extreme", E=kind, compare=compare, result=result)


def _dot_product(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, I16, I8, U8, U32))
    total: Scalar = F64 if kind in (F64, F32) else U32
    length = kit.length(24)
    signed = isinstance(kind, Integer) and kind.signed
    product, end, width = "a[i] * b[i]", "sum", total
    if isinstance(kind, Integer):
        product = f"({total.name})(a[i] * b[i])"
    else:
        end = "bounded(sum)"
    if signed and kit.rng.chance(50):
        width, product, total = I64, "(int32_t)a[i] * b[i]", I64
    arrays = [Array(name, kind, (length,), writable=False) for name in "ab"]
    return kit.define(total, [*arrays, _count(length)], length * 24, "dot", S=width, product=product, end=end)


def _scaled_sum(kit: Kit) -> Function:
    """y = a x + y."""
    kind = kit.rng.choice((F64, F32, U32, U64))
    length = kit.length(30)
    step = "y[i] += a * x[i];"
    if kind in (F64, F32):
        step = "y[i] = bounded(y[i] + a * x[i]);" if kind == F64 else "y[i] = (float)bounded(y[i] + a * x[i]);"
    parameters = [Array("y", kind, (length,)), Array("x", kind, (length,), writable=False), scalar_parameter("a", kind)]
    return kit.define(kind, parameters, length * 36, "axpy", step=step, length=length, some=kit.rng.below(length))


def _prefix_sums(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, U32, U64))
    length = kit.length(22)
    first, second = kit.rng.choice(
        (("sum += data[i];", "data[i] = sum;"), (f"{kind.name} old = data[i];\n        data[i] = sum;", "sum += old;"))
    )
    parameters = [Array("data", kind, (length,))]
    return kit.define(kind, parameters, length * 24, "prefix", length=length, first=first, second=second)


def _histogram(kit: Kit) -> Function:
    bins = kit.rng.choice((8, 16, 32))
    kind = kit.rng.choice((U8, U16, U32))
    length = kit.length(20)
    parameters = [Array("data", kind, (length,), writable=False), _count(length)]
    work = length * 18 + bins * 22
    return kit.define(U32, parameters, work, "histogram", bins=bins, into="%")


def _mirrored(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(16)
    return kit.define(kind, [Array("data", kind, (length,)), _count(length)], length * 20, "reverse/mirrored")


def _rotated(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(16)
    loop = f"for (int32_t i = 0; i < {length - 1}; i++)\n        data[i] = data[i + 1];"
    move = kit.pick(loop, f"memmove(data, data + 1, {length - 1} * sizeof(data[0]));")
    parameters = [Array("data", kind, (length,))]
    words = {"move": move, "last": length - 1, "some": kit.rng.below(length)}
    return kit.define(kind, parameters, length * 16 + 20, "rotate", **words)


def _filled(kit: Kit) -> Function:
    """Initialise an array from a generator of numbers, or with one number."""
    kind = kit.rng.choice((*INTEGERS, I32, U8))
    length = kit.length(20)
    step = kit.pick(
        f"seed = seed * 1664525u + 1013904223u;\n        data[i] = ({kind.name})(seed >> 16);",
        f"data[i] = ({kind.name})(seed + (uint32_t)i * 7u);",
        f"data[i] = ({kind.name})seed;",
        "data[i] = 0;",
        f"seed ^= seed << 13;\n        seed ^= seed >> 17;\n        data[i] = ({kind.name})seed;",
    )
    parameters = [Array("data", kind, (length,)), scalar_parameter("seed", U32)]
    return kit.define(U32, parameters, length * 22, "fill", step=step, length=length, some=kit.rng.below(length))


def _copied(kit: Kit) -> Function:
    """Copy an array: by a loop, by pointers, or by the library."""
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(16)
    how = kit.pick(
        "for (int32_t i = 0; i < $n; i++)\n        to[i] = from[i];",
        "const $k *end = from + $n;\n    $k *out = to;\n    while (from != end)\n        *out++ = *from++;",
        "memcpy(to, from, $n * sizeof(to[0]));",
    )
    parameters = [Array("to", kind, (length,)), Array("from", kind, (length,), writable=False)]
    how = how.replace("$n", str(length)).replace("$k", kind.name)
    return kit.define(kind, parameters, length * 18, "copy", how=how, some=kit.rng.below(length))


def _stencil(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, I32, U8, I16, U32))
    length = kit.length(30)
    if kind in (F64, F32):
        value = f"({kind.name})bounded(0.25 * from[i - 1] + 0.5 * from[i] + {kit.real()} * from[i + 1])"
    elif kind == I32:
        value = "from[i - 1] / 4 + from[i] / 2 + from[i + 1] / 4"
    else:
        value = f"({kind.name})((from[i - 1] + 2 * from[i] + from[i + 1]) / 4)"
    parameters = [Array("to", kind, (length,)), Array("from", kind, (length,), writable=False)]
    words = {"value": value, "last": length - 1, "some": kit.rng.below(length)}
    return kit.define(kind, parameters, length * 36, "smooth", **words)


def _filter(kit: Kit) -> Function:
    """A finite impulse response."""
    taps = kit.rng.choice((3, 4, 5, 8))
    length = kit.length(20 * taps)
    return kit.define(
        I64,
        [Array("data", I16, (length,), writable=False)],
        length * taps * 22,
        "filter",
        taps=taps,
        numbers=", ".join(str(kit.rng.between(-99, 99)) for _ in range(taps)),
        before=taps - 1,
        length=length,
        **{"and": kit.pick(">> 4", "/ 16", "% 1000")},
    )


def _variance(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, I16, U8))
    length = kit.length(40)
    result = kit.pick("sqrt(sum / $length)", "sum / $length").replace("$length", str(length))
    parameters = [Array("data", kind, (length,), writable=False)]
    return kit.define(F64, parameters, length * 36, "spread", length=length, result=result)


def _packed(kit: Kit) -> Function:
    """Keep some elements and close the gaps."""
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(22)
    condition = kit.pick("data[i] > limit", "data[i] != limit", "i == 0 || data[i] != data[i - 1]", "data[i] <= limit")
    parameters = [Array("data", kind, (length,)), _count(length), scalar_parameter("limit", kind)]
    return kit.define(Lvalue("", I32, 0, length), parameters, length * 28, "pack", condition=condition)


def _sieve(kit: Kit) -> Function:
    most = kit.rng.choice((100, 200, 400))
    parameters = [scalar_parameter("limit", I32, 2, most)]
    return kit.define(Lvalue("", I32, 0, most), parameters, most * 60, "sieve", most=most, start=kit.pick("2", "i"))


def _found(kit: Kit) -> Function:
    """Look for an element from the front."""
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(14)
    parameters = [Array("data", kind, (length,), writable=False), _count(length), scalar_parameter("key", kind)]
    template = kit.pick("find/loop", "find/pointers")
    return kit.define(
        Lvalue("", I32, -1, length - 1), parameters, length * 18, template, E=kind, compare=kit.pick("==", ">", "<")
    )


IDIOMS: tuple[Idiom, ...] = (
    _sum,
    _extreme,
    _dot_product,
    _scaled_sum,
    _prefix_sums,
    _histogram,
    _mirrored,
    _rotated,
    _filled,
    _copied,
    _stencil,
    _filter,
    _variance,
    _packed,
    _sieve,
    _found,
)
