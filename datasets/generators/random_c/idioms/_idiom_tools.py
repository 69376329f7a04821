"""Tools for writing idioms: tables of words that are drawn, and the C that they are put into.

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

from aiocg.datasets.generators.random_c._rng import Rng
from aiocg.datasets.generators.random_c._scope import Array, Function, Lvalue, Parameter, scalar_parameter
from aiocg.datasets.generators.random_c._types import INTEGERS, REALS, Scalar

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
