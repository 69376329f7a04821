"""A user's file as a program."""

import dataclasses
import difflib
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from aiocg.datasets.dependency import includes_files, with_absolute_files
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, CompilationCancelled
from aiocg.datasets.frontend import LANGUAGES, TIMEOUT, absolute_flags, compile_file, flag_advice, is_bitcode
from aiocg.datasets.recipe import BenchmarkProgram
from aiocg.datasets.source_files import gather_files
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.toolchain import compile_flags, find_clang

IR_SUFFIXES = (".ll", ".bc")
SUFFIXES = (*LANGUAGES, *IR_SUFFIXES)
"""The suffixes of files that can be benchmarks."""

_LINKING = ("-l", "-L", "-pthread", "-static", "-stdlib=", "-fopenmp")  # flags that matter for linking, too

FLAG = "flag"
"""The key under which the URI of a file carries each of its compiler flags."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramFile:
    """A file with the flags for clang that belong to it.

    C and C++ are compiled whenever the content is asked for; `.ll` and `.bc` are taken as they are.
    """

    path: Path
    flags: tuple[str, ...] = ()

    @classmethod
    def given(cls, path: str | os.PathLike[str], flags: Iterable[str] = ()) -> Self:
        """Check a file that a user names; see `aiocg.datasets.Benchmark.from_file`."""
        name, found = os.fspath(path), Path(os.path.expanduser(path))
        fixed = absolute_flags(flags)
        cls(found).check(name)
        if fixed and found.suffix in IR_SUFFIXES:
            raise BenchmarkInitError(name, f"is taken as it is: {' '.join(fixed)} can have no effect")
        return cls(Path(os.path.realpath(found.parent), found.name), fixed)

    @property
    def language(self) -> str:
        """The language, "c" or "c++"; "" when it is not compiled."""
        return LANGUAGES.get(self.path.suffix, "")

    def read(self) -> bytes:
        """Read the file, or say why it cannot be read."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            reason = f"there is no file {self.path} any more"
            raise BenchmarkNotFound(str(self.path), reason, nearest_files(self.path)) from None
        except OSError as error:
            raise BenchmarkInitError(str(self.path), f"cannot be read: {error.strerror}") from error

    def content(self, more: Sequence[str] = ()) -> bytes:
        """Return the bitcode or textual IR, compiled with more flags if they are given.

        Raises:
            DatasetError: when it cannot be compiled or read, or is no bitcode though its name says so.
        """
        if self.language:
            return self._compiled((*self.flags, *more))
        content = self.read()
        if self.path.suffix == ".bc" and not is_bitcode(content):
            reason = "is not LLVM bitcode: it does not begin with the letters BC and C0DE"
            raise BenchmarkInitError(str(self.path), reason)
        return content

    def _compiled(self, flags: Sequence[str]) -> bytes:
        self.read()
        with_files = includes_files(self.path, self.path.parent, flags)
        try:
            content = compile_file(self.path, (*compile_flags(find_clang(), self.language), *flags))
        except CompilationCancelled:
            raise
        except BenchmarkInitError as error:
            advice = flag_advice(error.diagnostics)
            if not advice:
                raise
            reason, said = f"{error.reason}; {advice}", error.diagnostics
            raise BenchmarkInitError(error.source, reason, said, error.missing_header) from None
        if not with_files:
            return content
        return with_absolute_files(content, self.path.parent, (*flags, f"-I{os.getcwd()}"), TIMEOUT)

    @property
    def program(self) -> BenchmarkProgram | None:
        """How clang links it with this machine's libraries, and those that its flags name; None for `.ll` and `.bc`."""
        libraries = tuple(flag for flag in self.flags if flag.startswith(_LINKING))
        return BenchmarkProgram(self.language, libraries=libraries) if self.language else None

    def source_tree(self) -> SourceTree:
        """Gather what another compiler needs to compile it; see `gather_files`."""
        return gather_files([self.path], self.flags, self.language)

    def check(self, name: str) -> None:
        """Check that the file can be a benchmark; errors use the user's name for it.

        Raises:
            BenchmarkNotFound: when there is no such file.
            BenchmarkInitError: when it is a directory, cannot be read, is empty, or has an unknown suffix.
        """
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            raise BenchmarkNotFound(name, f"there is no file {name!r}", nearest_files(self.path)) from None
        except OSError as error:
            raise BenchmarkInitError(name, f"cannot be reached: {error.strerror}") from error
        except ValueError as error:
            raise BenchmarkInitError(name, f"is no file name: {error}") from error
        if stat.S_ISDIR(status.st_mode):
            raise BenchmarkInitError(name, "is a directory; to use all its files, make a FilesDataset of it")
        if self.path.suffix not in SUFFIXES:
            raise BenchmarkInitError(name, unknown_suffix(self.path.suffix))
        if not stat.S_ISREG(status.st_mode):
            raise BenchmarkInitError(name, "is not a regular file")
        try:
            with open(self.path, "rb") as file:
                beginning = file.read(1)
        except OSError as error:
            raise BenchmarkInitError(name, f"cannot be read: {error.strerror}") from error
        if not beginning:
            raise BenchmarkInitError(name, "is empty")


def unknown_suffix(suffix: str, accepted: tuple[str, ...] = SUFFIXES) -> str:
    """Describe an unknown suffix."""
    return f"unknown suffix {suffix!r}, expected one of {', '.join(accepted)}"


def nearest_files(path: Path) -> list[str]:
    """Find files with names like the missing one, in its directory."""
    try:
        names = sorted(name for name in os.listdir(path.parent) if name.endswith(SUFFIXES) or not path.suffix)
    except OSError:
        return []
    return [str(path.parent / name) for name in difflib.get_close_matches(path.name, names, n=3)]
