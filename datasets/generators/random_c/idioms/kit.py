"""What idioms are written with."""

import string
import textwrap
from collections.abc import Callable, Sequence

from aiocg.datasets.generators.random_c.rng import Rng
from aiocg.datasets.generators.random_c.scope import Function, Parameter, Place
from aiocg.datasets.generators.random_c.types import Scalar

__all__ = ["Idiom", "Kit"]

_LENGTHS = (8, 16, 16, 32, 32, 64)


class Kit:
    """Chance, names and templates for one idiom.

    Args:
        rng: decides.
        name: makes a new name of a word.
        limit: how many instructions a call may execute.
    """

    def __init__(self, rng: Rng, name: Callable[[str], str], limit: int) -> None:
        self.rng = rng
        self.name = name
        self.limit = limit

    def length(self, cost: int, *, power: int = 1) -> int:
        """Draw the length of an array, where `cost * length**power` instructions are executed."""
        return self.rng.choice([n for n in _LENGTHS if cost * n**power <= self.limit] or [_LENGTHS[0]])

    def pick(self, *variants: str) -> str:
        """Draw one of several spellings."""
        return self.rng.choice(variants)

    def define(
        self,
        stem: str,
        result: Scalar | Place,
        parameters: Sequence[Parameter],
        work: int,
        template: str,
        /,
        **words: object,
    ) -> Function:
        """Define a function, which uses nothing but its arguments.

        Args:
            stem: what its name begins with.
            result: what it returns.
            parameters: what it takes.
            work: how many instructions a call executes at most.
            template: its text. `$head` is `static T name(parameters)`, `$T` the type of the result, `$I` that of a
                loop's counter; `$name` and the words stand for themselves.
            words: what else the template names.
        """
        name = self.name(stem)
        place = result if isinstance(result, Place) else Place("", result, result.low, result.high)
        declared = ", ".join(parameter.declaration() for parameter in parameters)
        head = f"static {place.type.name} {name}({declared})"
        spelled = {key: value.name if isinstance(value, Scalar) else value for key, value in words.items()}
        spelled = {"I": self.pick("int32_t", "int32_t", "int64_t"), **spelled}
        text = string.Template(textwrap.dedent(template).lstrip("\n"))
        filled = text.substitute(head=head, name=name, T=place.type.name, **spelled)
        return Function(
            name, place, tuple(parameters), filled, work, all(isinstance(parameter, Place) for parameter in parameters)
        )

    def real(self) -> str:
        """Draw a small constant of type double."""
        return repr(self.rng.between(1, 31) / 16)


Idiom = Callable[[Kit], Function]
