"""Idioms of order: sorting, searching, heaps."""

from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.scope import Array, Function, Lvalue, scalar_parameter
from aiocg.datasets.generators.random_c.types import F64, I16, I32, I64, U8, U16, U32, U64, Scalar

_ELEMENTS: tuple[Scalar, ...] = (I16, I32, I32, I64, U8, U16, U32, U64, F64)


def _simple_sort(kit: Kit) -> Function:
    """Insertion, selection, bubble or Shell's sort."""
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(26, power=2)
    template = kit.pick("sort/insertion", "sort/selection", "sort/bubble", "sort/shell")
    parameters = [Array("data", kind, (length,)), scalar_parameter("count", I32, 1, length)]
    return kit.define(kind, parameters, 26 * length**2, template, after=kit.pick(">", "<"))


def _quicksort(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(40, power=2)
    parameters = [Array("data", kind, (length,)), scalar_parameter("count", I32, 1, length)]
    pivot = kit.pick("low + (high - low) / 2", "(low + high) >> 1", "low")
    return kit.define(kind, parameters, 40 * length**2, "sort/quicksort", sort=kit.name("quicksort"), pivot=pivot)


def _merge_sort(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(60 * 6)
    parameters = [Array("data", kind, (length,))]
    work = length * length.bit_length() * 46
    return kit.define(kind, parameters, work, "merge_sort", length=length, some=kit.rng.below(length))


def _binary_search(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(12)
    parameters = [
        Array("data", kind, (length,), writable=False),
        scalar_parameter("count", I32, 1, length),
        scalar_parameter("key", kind),
    ]
    result = Lvalue("", I32, 0, length)
    return kit.define(result, parameters, 200, "search", compare=kit.pick("<", "<="))


def _heap(kit: Kit) -> Function:
    """Make a heap, and take the first few elements."""
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(40 * 7)
    words = {
        "sift": kit.name("sift"),
        "after": kit.pick(">", "<"),
        "length": length,
        "taken": kit.rng.between(1, length),
    }
    parameters = [Array("data", kind, (length,))]
    return kit.define(kind, parameters, length * length.bit_length() * 90, "heap", **words)


def _library_sort(kit: Kit) -> Function:
    """Sort by the library's function, with an order that tells all elements apart that differ."""
    kind = kit.rng.choice((I16, I32, U32, I64))
    length = kit.length(60, power=2)
    result = kit.pick("(x > y) - (x < y)", "(x < y) - (x > y)", "x < y ? -1 : x > y")
    parameters = [Array("data", kind, (length,)), scalar_parameter("count", I32, 1, length)]
    return kit.define(kind, parameters, length**2 * 60, "sort/library_sort", order=kit.name("order"), result=result)


IDIOMS: tuple[Idiom, ...] = (_simple_sort, _simple_sort, _quicksort, _merge_sort, _binary_search, _heap, _library_sort)
