"""Tools for writing idioms."""

import functools
import re
import string
from collections.abc import Callable, Sequence
from importlib.resources import files

from aiocg.datasets.generators.random_c.rng import Rng
from aiocg.datasets.generators.random_c.scope import Function, Lvalue, Parameter
from aiocg.datasets.generators.random_c.types import Scalar

_LENGTHS = (8, 16, 16, 32, 32, 64)


class Kit:
    """Random draws, names and templates for one idiom, a call of which may execute `limit` instructions."""

    def __init__(self, rng: Rng, name: Callable[[str], str], limit: int) -> None:
        self.rng = rng
        self.name = name
        self.limit = limit

    def length(self, cost: int, *, power: int = 1) -> int:
        """Draw the length of an array such that `cost * length**power` instructions are within the limit."""
        return self.rng.choice([n for n in _LENGTHS if cost * n**power <= self.limit] or [_LENGTHS[0]])

    def pick(self, *variants: str) -> str:
        """Draw one of several spellings."""
        return self.rng.choice(variants)

    def define(
        self, result: Scalar | Lvalue, parameters: Sequence[Parameter], work: int, template: str, /, **words: object
    ) -> Function:
        """Define a function, which uses nothing but its arguments.

        Args:
            work: how many instructions a call executes at most.
            template: the name of its text in `templates`; up to a slash it begins the function's name. There `$head` is
                `static T name(parameters)`, `$T` the type of the result, `$I` that of a loop's counter and `$name` the
                function's name.
            words: for the template's other placeholders; they may contain placeholders themselves.
        """
        name = self.name(template.partition("/")[0])
        lvalue = result if isinstance(result, Lvalue) else Lvalue("", result, result.low, result.high)
        declared = ", ".join(parameter.declaration() for parameter in parameters)
        head = f"static {lvalue.type.name} {name}({declared})"
        spelled = {key: value.name if isinstance(value, Scalar) else value for key, value in words.items()}
        spelled = {"I": self.pick("int32_t", "int32_t", "int64_t"), **spelled}
        spelled |= {"head": head, "name": name, "T": lvalue.type.name}
        filled = string.Template(string.Template(_templates()[template]).substitute(spelled)).substitute(spelled)
        return Function(
            name,
            lvalue,
            tuple(parameters),
            filled,
            work,
            all(isinstance(parameter, Lvalue) for parameter in parameters),
        )

    def real(self) -> str:
        """Draw a small constant of type double."""
        return repr(self.rng.between(1, 31) / 16)


@functools.cache
def _templates() -> dict[str, str]:
    """Return the texts of all idioms by their names."""
    found = {}
    for file in (files(__package__) / "templates").iterdir():
        for name, text in re.findall(r"^== (\S+)\n\n(.*?\n)(?=\n== |\Z)", file.read_text(), re.DOTALL | re.MULTILINE):
            found[name] = text
    return found


Idiom = Callable[[Kit], Function]
