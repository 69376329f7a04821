"""Which place a compiler's name means."""

from aiocg.workers.gcc.local import LocalPlace
from aiocg.workers.gcc.place import Place

__all__ = ["open_place"]

DOCKER = "docker:"


def open_place(gcc_bin: str) -> Place:
    """Return the place where a compiler runs.

    Args:
        gcc_bin: a path, a name on PATH, or `docker:` and the name of an image.

    Raises:
        CompilationError: with `FailureCode.COMPILER` when there is no such compiler.
    """
    if gcc_bin.startswith(DOCKER):
        from aiocg.workers.gcc.container import ContainerPlace  # what it needs is not for those to wait who need none

        return ContainerPlace(gcc_bin.removeprefix(DOCKER))
    return LocalPlace(gcc_bin)
