"""Numbers that have names."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.spaces.discrete import Discrete

__all__ = ["NamedDiscrete"]


class NamedDiscrete(Discrete):
    """The numbers from 0 on, each with a name.

    Attributes:
        names: of the numbers, in their order.

    Raises:
        ValueError: when there are none.
    """

    def __init__(self, items: Iterable[Any], name: str) -> None:
        self.names = [str(item) for item in items]
        if not self.names:
            raise ValueError("No values for discrete space: it needs one name at least")
        super().__init__(n=len(self.names), name=name)

    def __getitem__(self, name: str) -> int:
        """Return the number that has a name.

        Raises:
            ValueError: when none has.
        """
        return self.names.index(name)

    def to_string(self, values: Any) -> str:
        """Return the name of a number, or those of several, with spaces between them."""
        if isinstance(values, Iterable):
            return " ".join(self.names[value] for value in values)
        name: str = self.names[values]
        return name

    def from_string(self, values: Any) -> Any:
        """Return the number of a name, or a list with those of several: of a list, or of a text with spaces between.

        Raises:
            ValueError: when there is no such name.
        """
        if isinstance(values, str) and (values in self.names or len(values.split()) == 1):
            return self[values]
        return [self[value] for value in (values.split() if isinstance(values, str) else values)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NamedDiscrete) or Counter(self.names) != Counter(other.names):
            return False
        return super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        return f"NamedDiscrete([{', '.join(self.names)}])"
