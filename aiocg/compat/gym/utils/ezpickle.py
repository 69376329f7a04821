"""Objects that are pickled by the arguments that they were made with."""

from typing import Any

__all__ = ["EzPickle"]


class EzPickle:
    """An object that is pickled as the arguments of its constructor: pass them on to this one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._ezpickle_args = args
        self._ezpickle_kwargs = kwargs

    def __getstate__(self) -> dict[str, Any]:
        return {"_ezpickle_args": self._ezpickle_args, "_ezpickle_kwargs": self._ezpickle_kwargs}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(type(self)(*state["_ezpickle_args"], **state["_ezpickle_kwargs"]).__dict__)
