"""What validation finds wrong with a state."""

import json
from typing import Any, ClassVar

from aiocg.compat.model import Field, Model

__all__ = ["ValidationError"]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("str type expected")
    return value


class ValidationError(Model):
    """One thing that is wrong, a value rather than an exception. Errors are ordered by their type and their data.

    Attributes:
        type: such as `"Runtime error (1)"`.
        data: the evidence, plain enough for JSON.
    """

    type: str
    data: dict[str, Any]

    _fields: ClassVar = {"type": Field(_text), "data": Field(dict, default={})}

    def _key(self) -> tuple[str, str]:
        return self.type, json.dumps(self.data, sort_keys=True, default=str)

    def __lt__(self, other: object) -> bool:
        return self._key() < other._key() if isinstance(other, ValidationError) else True

    def __hash__(self) -> int:
        return hash(self._key())
