"""Decorators for properties and classes."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["frozen_class", "memoized_property"]

C = TypeVar("C", bound=type)


def memoized_property(func: Callable[[Any], Any]) -> Any:
    """Make a method a property that is computed once."""
    attribute = f"_memoized_property_{func.__name__}"

    @functools.wraps(func)
    def get(self: Any) -> Any:
        if not hasattr(self, attribute):
            object.__setattr__(self, attribute, func(self))
        return getattr(self, attribute)

    return property(get)


def frozen_class(cls: C) -> C:
    """Make a class whose objects get no new attributes once they are made; it raises TypeError. Subclasses are free."""
    make: Callable[..., None] = cls.__init__  # type: ignore[misc]
    made = "_frozen_since_init"

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls and self.__dict__.get(made) and not hasattr(self, name):
            raise TypeError(f"Cannot set attribute {name} on frozen class {cls.__name__}")
        object.__setattr__(self, name, value)

    @functools.wraps(make)
    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.__dict__[made] = True

    cls.__setattr__ = set_attribute  # type: ignore[assignment]
    cls.__init__ = initialise  # type: ignore[misc]
    return cls
