"""Reading the sources of a program, as `aiocg.datasets.source_tree` writes them."""

import hashlib

import msgspec

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.programs.recipe import problem_of_names

VERSION = 1
LANGUAGES = ("c", "c++")


class Sources(msgspec.Struct, frozen=True):
    """The files of a program and how to compile them; see `aiocg.datasets.source_tree.SourceTree`.

    Attributes:
        digest: SHA-256 of everything, in hexadecimal.
    """

    version: int
    units: tuple[str, ...]
    files: dict[str, bytes]
    include: tuple[str, ...]
    flags: tuple[str, ...]
    language: str
    freestanding: bool
    units_in_c: tuple[str, ...] = ()
    digest: str = ""

    def language_of(self, unit: str) -> str:
        """Return "c" or "c++"."""
        return "c" if unit in self.units_in_c else self.language

    @property
    def languages(self) -> list[str]:
        """The languages of all units, without duplicates, in a fixed order."""
        return sorted({self.language_of(unit) for unit in self.units})

    @property
    def text(self) -> str:
        """The translation units, concatenated."""
        return "".join(self.files[unit].decode(errors="replace") for unit in self.units)


def read_sources(content: bytes) -> Sources:
    """Read the content of a benchmark.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK` if it is not the sources of a program.
    """
    try:
        sources = msgspec.msgpack.decode(content, type=Sources)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_sources(str(error)) from None
    if sources.version != VERSION:
        raise _not_sources(f"their version is {sources.version}, not {VERSION}")
    if sources.language not in LANGUAGES:
        raise _not_sources(f"their language is {sources.language!r}, not one of {', '.join(LANGUAGES)}")
    if not sources.units:
        raise _not_sources("there is no unit to compile")
    for unit in sources.units:
        if unit not in sources.files:
            raise _not_sources(f"the unit {unit!r} is not among the files")
    if problem := problem_of_names(sources.files, (*sources.flags, *sources.include)):
        raise _not_sources(problem)
    return msgspec.structs.replace(sources, digest=hashlib.sha256(content).hexdigest())


def _not_sources(reason: str) -> CompilationError:
    return CompilationError(
        FailureCode.BENCHMARK, f"these are not the sources of a program, which is what GCC takes: {reason}"
    )
