"""Validated records with the methods that pydantic 1's models had."""

import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A pydantic model whose fields are validated whenever they are set. Unknown arguments are ignored."""

    model_config = ConfigDict(validate_assignment=True, coerce_numbers_to_str=True)

    def dict(self, **options: Any) -> Any:
        """Return the fields as a dictionary of plain values; takes the arguments of `model_dump`."""
        return self.model_dump(**options)

    def json(self, *, indent: int | None = None, **options: Any) -> str:
        """Return the fields as a JSON object; takes the arguments of `dict`, and `indent`."""
        return json.dumps(self.dict(**options), indent=indent, default=str)

    def copy(self, **options: Any) -> Self:
        """Return a copy, optionally with some fields replaced (`update`); the new values are not validated."""
        return self.model_copy(**options)

    @classmethod
    def parse_obj(cls, obj: Any) -> Self:
        """Make a record from a dictionary."""
        return cls.model_validate(obj)

    @classmethod
    def parse_raw(cls, b: str | bytes, **_: Any) -> Self:
        """Make a record from JSON as written by `json`."""
        return cls.model_validate_json(b)
