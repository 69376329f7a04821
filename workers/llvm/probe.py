"""Asking a library which pipelines it takes."""

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import LlvmError, Module

_EMPTY = b""
_FUNCTION = b"define void @probe() {\n  ret void\n}\n"


class Probe:
    """A next to empty module on which pipelines are tried: LLVM refuses what it does not know before it runs anything.

    Use it with `with`.
    """

    def __init__(self, library: Library) -> None:
        self._library = library

    def __enter__(self) -> "Probe":
        self._module = Module.parse(self._library, _EMPTY)
        self._other: Module | None = None
        return self

    def __exit__(self, *_: object) -> None:
        self._module.close()
        if self._other is not None:
            self._other.close()

    def __call__(self, pipeline: str) -> bool:
        """Say whether the library takes this pipeline over a module."""
        return self.refusal(pipeline) is None

    def refusal(self, pipeline: str, options: tuple[tuple[str, str], ...] = ()) -> str | None:
        """Return why LLVM does not take a pipeline over a module, in its own words, or None."""
        return _refusal(self._module, pipeline, options)

    def refusal_on_function(self, pipeline: str) -> str | None:
        """Return why LLVM does not take a pipeline over a function, in its own words, or None."""
        if self._other is None:
            self._other = Module.parse(self._library, _FUNCTION)
        return _refusal(self._other, pipeline, (), self._other.function(b"probe"))


def _refusal(
    module: Module, pipeline: str, options: tuple[tuple[str, str], ...], function: int | None = None
) -> str | None:
    try:
        module.run_passes(pipeline, None, options, function)
    except LlvmError as error:
        return str(error)
    return None
