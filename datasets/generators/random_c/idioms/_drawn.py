"""Idioms whose details depend on each other, and the tools for writing idioms: tables of words, and C made of them.

An idiom is a table in one of `templates`. It names words and how they are drawn, in this order:

* a list: one of its elements; the name of one of the file's `lists`: one of that list;
* a number: the length of an array that costs as many instructions for each element; a table with `cost`, `power` and
  `of` the same for `cost * n**power`, of other numbers, or `otherwise` where all cost too much;
* `"a..b"`, `"< a"`, `"= a"`: a number from a to b, below a, and that number. Numbers are computed from words and with
  `bits(n)`, the bits that n has, and the attributes of types;
* `"new word"`: a new name.

A word may be the name of a type, such as `U32`. Then `takes` declares the parameters, `returns` says the type of the
result, perhaps with the numbers between which it lies, and `work` how many instructions a call executes at most. `text`
is the C: several, by the word `form`, or one. In it `$word` is a word, which may have such words itself, `$head` is
`static T name(parameters)`, `$T` the type of the result, `$I` that of a loop's counter and `$name` the function's name.
An idiom that is drawn more often than others is so `often`; one without `returns` is drawn by Python, in `drawn`.
"""

import ast
import functools
import operator
import re
import string
import tomllib
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from aiocg.datasets.generators.random_c._scope import Array, Function, Lvalue, Parameter, scalar_parameter
from aiocg.datasets.generators.random_c._values import (
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    INTEGERS,
    REALS,
    U8,
    U16,
    U32,
    U64,
    Integer,
    Rng,
    Scalar,
)

_LENGTHS = (8, 16, 16, 32, 32, 64)
_FAMILIES = ("numbers", "arrays", "sorting", "matrices", "text", "structures")
_TYPES: Mapping[str, Scalar] = {kind.suffix.upper(): kind for kind in (*INTEGERS, *REALS)}
_PARAMETER = re.compile(r"(const )?(\w+) (\w+)((?:\[\w+\])*)(?: (.+)\.\.(.+))?")
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip


class Kit:
    """Random draws, names and templates for one idiom, a call of which may execute `limit` instructions."""

    def __init__(self, rng: Rng, name: Callable[[str], str], limit: int) -> None:
        self.rng = rng
        self.name = name
        self.limit = limit

    def length(self, cost: int, *, power: int = 1, of: Sequence[int] = _LENGTHS, otherwise: int = _LENGTHS[0]) -> int:
        """Draw the length of an array such that `cost * length**power` instructions are within the limit."""
        return self.rng.choice([n for n in of if cost * n**power <= self.limit] or [otherwise])

    def pick(self, *variants: str) -> str:
        """Draw one of several spellings."""
        return self.rng.choice(variants)

    def real(self) -> str:
        """Draw a small constant of type double."""
        return repr(self.rng.between(1, 31) / 16)

    def write(self, idiom: str) -> Function:
        """Write an idiom by its table."""
        table = tables()[idiom]
        words: dict[str, Any] = {}
        for word, how in table.items():
            if word not in ("often", "takes", "returns", "work", "text", "lists"):
                words[word] = self._drawn(table["lists"].get(how, how) if isinstance(how, str) else how, words)
        template = f"{idiom}/{words['form']}" if "form" in words else idiom
        kind, _, ends = table["returns"].partition(" ")
        result = scalar_parameter("", _type(kind, words), *(_number(end, words) for end in ends.split("..") if end))
        parameters = [_parameter(text, words) for text in table["takes"]]
        return self.define(result, parameters, _number(table["work"], words), template, **words)

    def define(
        self, result: Scalar | Lvalue, parameters: Sequence[Parameter], work: int, template: str, /, **words: object
    ) -> Function:
        """Define a function, which uses nothing but its arguments.

        Args:
            work: how many instructions a call executes at most.
            template: an idiom, with a slash and one of its forms if it has several; up to the first slash it begins the
                function's name.
            words: for the placeholders of its text; they may contain placeholders themselves.
        """
        name = self.name(template.partition("/")[0])
        lvalue = result if isinstance(result, Lvalue) else Lvalue("", result, result.low, result.high)
        declared = ", ".join(parameter.declaration() for parameter in parameters)
        head = f"static {lvalue.type.name} {name}({declared})"
        spelled = {key: value.name if isinstance(value, Scalar) else value for key, value in words.items()}
        spelled = {"I": self.pick("int32_t", "int32_t", "int64_t"), **spelled}
        spelled |= {"head": head, "name": name, "T": lvalue.type.name}
        filled = string.Template(string.Template(_text(template)).substitute(spelled)).substitute(spelled)
        pure = all(isinstance(parameter, Lvalue) for parameter in parameters)
        return Function(name, lvalue, tuple(parameters), filled, work, pure)

    def _drawn(self, how: Any, words: Mapping[str, Any]) -> Any:
        if isinstance(how, list):
            drawn = self.rng.choice(how)
            return _TYPES.get(drawn, drawn)
        if isinstance(how, dict):
            return self.length(**how)
        if isinstance(how, int):
            return self.length(how)
        first, _, rest = how.partition(" ")
        if first == "new":
            return self.name(rest)
        if first in ("<", "="):
            number = _number(rest, words)
            return self.rng.below(number) if first == "<" else number
        low, high = how.split("..")
        return self.rng.between(_number(low, words), _number(high, words))


@functools.cache
def tables() -> dict[str, dict[str, Any]]:
    """Return the tables of all idioms by their names, in order, each with the `lists` of its file."""
    found: dict[str, dict[str, Any]] = {}
    for family in _FAMILIES:
        content = tomllib.loads((files(__package__) / "templates" / f"{family}.toml").read_text(encoding="utf-8"))
        lists = content.pop("lists", {})
        found |= {name: {**table, "lists": lists} for name, table in content.items()}
    return found


def _text(template: str) -> str:
    """Return the text of an idiom, or of one of its forms."""
    if template in tables():
        return str(tables()[template]["text"])
    idiom, _, form = template.rpartition("/")
    return str(tables()[idiom]["text"][form])


def _type(word: str, words: Mapping[str, Any]) -> Scalar:
    kind: Scalar = words.get(word) or _TYPES[word]
    return kind


def _parameter(text: str, words: Mapping[str, Any]) -> Parameter:
    found = _PARAMETER.fullmatch(text)
    assert found is not None, text
    constant, kind, name, lengths, *ends = found.groups()
    if lengths:
        shape = tuple(int(words[length]) for length in lengths[1:-1].split("]["))
        return Array(name, _type(kind, words), shape, writable=not constant)
    return scalar_parameter(name, _type(kind, words), *(_number(end, words) for end in ends if end))


def _number(text: str, words: Mapping[str, Any]) -> int:
    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(number):
                return number
            case ast.Name(word):
                return words[word]
            case ast.Attribute(kind, attribute):
                return getattr(value(kind), attribute)
            case ast.BinOp(left, sign, right):
                return _OPERATORS[type(sign)](value(left), value(right))
            case ast.UnaryOp(ast.USub(), number):
                return -value(number)
            case ast.Call(ast.Name("bits"), [number]):
                return value(number).bit_length()
        raise ValueError(f"{text!r} is no number")

    return int(value(_parsed(text)))


@functools.cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


Idiom = Callable[[Kit], Function]


_OPERATIONS = (
    "a + b", "a - b", "a ^ b", "a * 3 + b", "a > b ? a : b", "(a & b) + 1", "a >> (b & 7)", "~a | b", "a % (b | 1)",
)  # fmt: skip


_ELEMENTS: tuple[Scalar, ...] = (*INTEGERS, I32, I32, U8, F64, F64, F32)


_CELLS: tuple[Scalar, ...] = (F64, F64, F32, U32, U32, I16, U8)


def _bytes(length: int, *, writable: bool = False, name: str = "text") -> Array:
    return Array(name, U8, (length,), writable)


def _count(length: int) -> Lvalue:
    return scalar_parameter("count", I32, 1, length)


def _stored(kind: Scalar, text: str) -> str:
    """Convert a sum to an element."""
    return f"({kind.name})({text})" if isinstance(kind, Integer) else f"({kind.name})bounded({text})"


def _mix(kit: Kit) -> Function:
    """The end of a hash function."""
    kind = kit.rng.choice((U32, U64))
    lines = []
    for _ in range(kit.rng.between(2, 4)):
        lines.append(f"x ^= x >> {kit.rng.between(7, kind.bits // 2 + 1)};")
        times, shift = kit.rng.below(2**31) * 2 + 1, kit.rng.between(2, 12)
        lines.append(kit.pick(f"x *= {times}u;", f"x += x << {shift};", "x = ~x;"))
    text = "\n    ".join(lines)
    return kit.define(kind, [scalar_parameter("x", kind)], 50, "mix", lines=text)


def _fibonacci(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    recurses = kit.rng.chance(40)
    most = kit.rng.between(6, 10) if recurses else 60
    work = 180 * 20 if recurses else 60 * 16
    parameters = [scalar_parameter("n", I32, 0, most)]
    return kit.define(kind, parameters, work, "fibonacci/recursive" if recurses else "fibonacci/loop")


def _saturate(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, Integer(8, True), Integer(16, True)))
    low = kit.pick(f"if (sum < {kind.low})\n        return {kind.low};", f"sum = sum < {kind.low} ? {kind.low} : sum;")
    parameters = [scalar_parameter("a", kind), scalar_parameter("b", kind)]
    operator = kit.pick("+", "-", "*") if kind.bits == 8 else kit.pick("+", "-")
    return kit.define(kind, parameters, 24, "saturate", operator=operator, high=kind.high, low=low)


def _polynomial(kit: Kit) -> Function:
    """Horner's rule, in a row or in a loop."""
    degree = kit.rng.between(2, 6)
    x = kit.pick("x / 1048576.0", "x * 0.0000009", "1.0 / (1.0 + x * x)")
    numbers = [kit.real() for _ in range(degree + 1)]
    total = numbers[0]
    for number in numbers[1:]:
        total = f"({total}) * y + {number}"
    return kit.define(
        Lvalue("", F64, -20.0, 20.0), [scalar_parameter("x", F64)], 200, kit.pick("polynomial/row", "polynomial/loop"),
        x=x, sum=total, count=degree + 1, numbers=", ".join(numbers),
    )  # fmt: skip


def _sum(kit: Kit) -> Function:
    kind = kit.rng.choice(_ELEMENTS)
    length = kit.length(20)
    integer = isinstance(kind, Integer)
    guarded = "if (data[i] > 0)\n            total += data[i];"
    step = kit.pick("total += data[i];", "total += data[i] * data[i];", guarded)
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
    results = ((scalar_parameter("", kind), "best"), (Lvalue("", I32, 0, length - 1), "where"))
    lvalue, result = kit.rng.choice(results)
    return kit.define(lvalue, parameters, length * 24, "extreme", E=kind, compare=compare, result=result)


def _dot(kit: Kit) -> Function:
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


def _axpy(kit: Kit) -> Function:
    """y = a x + y."""
    kind = kit.rng.choice((F64, F32, U32, U64))
    length = kit.length(30)
    step = "y[i] += a * x[i];"
    if kind in (F64, F32):
        step = "y[i] = bounded(y[i] + a * x[i]);" if kind == F64 else "y[i] = (float)bounded(y[i] + a * x[i]);"
    parameters = [Array("y", kind, (length,)), Array("x", kind, (length,), writable=False), scalar_parameter("a", kind)]
    return kit.define(kind, parameters, length * 36, "axpy", step=step, length=length, some=kit.rng.below(length))


def _prefix(kit: Kit) -> Function:
    kind = kit.rng.choice((U8, U16, U32, U64))
    length = kit.length(22)
    with_own = ("sum += data[i];", "data[i] = sum;")
    without = (f"{kind.name} old = data[i];\n        data[i] = sum;", "sum += old;")
    first, second = kit.rng.choice((with_own, without))
    parameters = [Array("data", kind, (length,))]
    return kit.define(kind, parameters, length * 24, "prefix", length=length, first=first, second=second)


def _smooth(kit: Kit) -> Function:
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
        I64, [Array("data", I16, (length,), writable=False)], length * taps * 22, "filter", taps=taps,
        numbers=", ".join(str(kit.rng.between(-99, 99)) for _ in range(taps)), before=taps - 1, length=length,
        **{"and": kit.pick(">> 4", "/ 16", "% 1000")},
    )  # fmt: skip


def _multiply(kit: Kit) -> Function:
    kind = kit.rng.choice(_CELLS)
    n = kit.rng.choice([n for n in (4, 6, 8, 12) if 26 * n**3 <= kit.limit] or [4])
    total: Scalar = kind if kind in (F32, F64) else U32
    inner = kit.pick("a[i][k] * b[k][j]", "a[i][k] * b[j][k]")
    if isinstance(kind, Integer):
        inner = f"(uint32_t){inner.split(' * ')[0]} * (uint32_t){inner.split(' * ')[1]}"
    parameters = [Array(name, kind, (n, n)) for name in "cab"]
    return kit.define(
        kind, parameters, 28 * n**3 + 30 * n**2, "multiply", n=n, S=total, inner=inner, value=_stored(kind, "sum"),
        row=kit.rng.below(n), column=kit.rng.below(n),
    )  # fmt: skip


def _apply(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, U32))
    rows, columns = kit.rng.choice((4, 8)), 8
    value = "sum" if isinstance(kind, Integer) else _stored(kind, "sum")
    parameters = [Array("y", kind, (16,)), Array("a", kind, (rows, columns)), Array("x", kind, (8,), writable=False)]
    return kit.define(
        kind, parameters, rows * columns * 26, "apply", rows=rows, columns=columns, value=value,
        some=kit.rng.below(rows),
    )  # fmt: skip


def _relax(kit: Kit) -> Function:
    kind = kit.rng.choice((F64, F32, U32, U16, U8))
    rows, columns = kit.rng.choice((6, 8)), kit.rng.choice((8, 12))
    value = "(from[i - 1][j] + from[i + 1][j] + from[i][j - 1] + from[i][j + 1])"
    value = _stored(kind, f"{value} / 4" if isinstance(kind, Integer) else f"0.25 * {value}")
    parameters = [Array(name, kind, (rows, columns)) for name in ("to", "from")]
    return kit.define(
        kind, parameters, rows * columns * 44, "relax", rows=rows, columns=columns, value=value,
        row=kit.rng.below(rows), column=kit.rng.below(columns),
    )  # fmt: skip


def _knapsack(kit: Kit) -> Function:
    capacity, items = kit.rng.choice((20, 40, 60)), kit.rng.between(4, 8)
    return kit.define(
        Lvalue("", U32, 0, 255 * items), [scalar_parameter("capacity", I32, 0, capacity)], capacity * items * 32,
        "knapsack", items=items, capacity=capacity,
        weights=", ".join(str(kit.rng.between(1, 20)) for _ in range(items)),
        values=", ".join(str(kit.rng.between(1, 200)) for _ in range(items)),
    )  # fmt: skip


def _hash(kit: Kit) -> Function:
    kind = kit.rng.choice((U32, U64))
    length = kit.length(20)
    prime = 16777619 if kind == U32 else 1099511628211
    step = kit.pick(
        f"hash = (hash ^ text[i]) * {prime}u;",
        "hash = hash * 33 + text[i];",
        "hash += text[i];\n        hash += hash << 10;\n        hash ^= hash >> 6;",
        f"hash = (hash << 5 | hash >> {kind.bits - 5}) ^ text[i];",
    )
    words = {"start": kit.rng.below(2**31), "step": step, "end": kit.pick("", " ^ hash >> 15", " * 2654435761u")}
    return kit.define(kind, [_bytes(length), _count(length)], length * 26, "hash", **words)


def _format(kit: Kit) -> Function:
    base = kit.rng.choice((10, 16, 2, 8))
    length = 64 if base == 2 else 32
    parameters = [_bytes(length, writable=True), scalar_parameter("value", kit.rng.choice((U32, U64)))]
    words = {"base": base, "length": length}
    return kit.define(Lvalue("", I32, 1, length), parameters, length * 36, "format", **words)


def _run_machine(kit: Kit) -> Function:
    """A state machine whose transitions are in a table."""
    states, classes = kit.rng.between(3, 6), kit.rng.choice((2, 4, 8))
    length = kit.length(24)
    rows = ", ".join("{" + ", ".join(str(kit.rng.below(states)) for _ in range(classes)) + "}" for _ in range(states))
    words = {"states": states, "classes": classes, "rows": rows, "final": kit.rng.below(states)}
    result = Lvalue("", U32, 0, length)
    return kit.define(result, [_bytes(length), _count(length)], length * 26, "run_machine", **words)


def _load(kit: Kit) -> Function:
    """Read words from bytes, or write them."""
    kind: Integer = kit.rng.choice((U16, U32, U64))
    size, length = kind.bits // 8, 16
    order = range(size) if kit.rng.chance(50) else range(size)[::-1]
    read = " | ".join(f"({kind.name})text[at + {i}] << {8 * shift}" for shift, i in enumerate(order))
    words = {"read": read, "end": kit.pick("& 0x7f", "^ 0x5a", "+ 1", "/ 3")}
    if kind == U16:
        words["end"] = kit.pick("& 0x7f", "/ 3", "% 1000")
    parameters = [_bytes(length), scalar_parameter("at", I32, 0, length - size)]
    return kit.define(kind, parameters, 60, "load", **words)


def _dispatch(kit: Kit) -> Function:
    """Small functions that are called by a table of pointers."""
    bodies = kit.rng.sample(_OPERATIONS, 4)
    names = [kit.name("operation") for _ in bodies]
    head, pairs = "(uint32_t a, uint32_t b)", zip(names, bodies, strict=True)
    functions = [f"static uint32_t {name}{head}\n{{\n    return {body};\n}}\n\n" for name, body in pairs]
    template = kit.pick("dispatch/table", "dispatch/argument")
    used = functions if template == "dispatch/table" else functions[:2]
    words: dict[str, object] = {"table": kit.name("apply"), "names": ", ".join(names)}
    words |= {"first": names[0], "second": names[1], "trips": kit.rng.between(4, 10), "functions": "".join(used)}
    return kit.define(U32, [scalar_parameter(name, U32) for name in "ab"], 500, template, **words)


_WRITERS = (
    *(_mix, _fibonacci, _saturate, _polynomial, _sum, _extreme, _dot, _axpy, _prefix, _smooth),
    *(_filter, _multiply, _apply, _relax, _knapsack, _hash, _format, _run_machine, _load, _dispatch),
)
DRAWN: Mapping[str, Callable[[Kit], Function]] = {write.__name__.removeprefix("_"): write for write in _WRITERS}
