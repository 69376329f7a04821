"""One program: its name, its content, and, where it can run, how to build, run and check it."""

import contextlib
import dataclasses
import hashlib
import os
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled, DatasetError
from aiocg.datasets.forks import ForkedLock
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["Benchmark", "BenchmarkProgram", "BenchmarkSource", "ProgramRun", "ValidationCallback"]

ValidationCallback = Callable[[Any], Awaitable[Iterable[Any]]]
"""An async function from an environment to `aiocg.validation.ValidationError`s, which are the client's."""


@dataclasses.dataclass(frozen=True, slots=True)
class BenchmarkSource:
    """A source file that a benchmark was made from.

    Attributes:
        filename: a relative path.
        contents: the file's bytes.
    """

    filename: str
    contents: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramRun:
    """One way to run a program, and what it must print and write.

    A program runs in a folder of its own, with nothing but what is said here.

    Attributes:
        arguments: the command line after the program's name.
        expected_output_path: the file that holds the expected standard output, or None when it is not known.
        exit_status: the status the program must exit with.
        stdin: the content of standard input.
        files: the content of the files it finds in its folder, by name.
        environment: its environment variables; there are no others.
        output_files: the files it writes there, by name, with their expected content, or None where that is not known.
        timeout: seconds after which it is stopped.
        output_varies: what it prints differs from one time to the next, and is not compared.
    """

    arguments: tuple[str, ...] = ()
    expected_output_path: Path | None = None
    exit_status: int = 0
    stdin: bytes = b""
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    output_files: Mapping[str, bytes | None] = dataclasses.field(default_factory=dict)
    timeout: float = 60.0
    output_varies: bool = False

    def expected_output(self) -> bytes | None:
        """Read the expected standard output; None when it is not known."""
        return None if self.expected_output_path is None else self.expected_output_path.read_bytes()


@dataclasses.dataclass(frozen=True, slots=True)
class BenchmarkProgram:
    """How to build, run and check a benchmark that is a whole program.

    Attributes:
        language: "c" or "c++".
        freestanding: the program stands on our own runtime and headers, not on the machine's.
        runs: the runs by name, such as "small", "medium" and "large"; a program without any cannot be run.
        command: what links it, see `aiocg.datasets.recipe`. When empty, our runtime is linked to a freestanding
            program, and clang links any other with the machine's libraries.
        files: the content of files that the command finds in its folder, by name.
        environment: the environment variables of the command; there are no others.
        measured: the run whose time is measured if nothing else is said, the first one if empty. It should take long
            enough that starting the program does not count, and no longer.
        carried: names of the runs that every environment on the benchmark can do, None for all. The others are done by
            validation only, so that what they need is not fetched for optimising.
        sanitizers: names of the sanitizers that may watch it, None for all: some programs have faults of their own.
    """

    language: str
    freestanding: bool = False
    runs: Mapping[str, ProgramRun] = dataclasses.field(default_factory=dict)
    command: tuple[str, ...] = ()
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    measured: str = ""
    carried: tuple[str, ...] | None = None
    sanitizers: tuple[str, ...] | None = None


class Benchmark:
    """A program that environments optimise.

    Content is computed on first use, once, whichever thread asks first, so that making thousands of
    benchmarks costs nothing. When computing it fails, the next access tries again. Two benchmarks are equal
    when their URIs are.

    Args:
        uri: the benchmark's name.
        loader: computes the content: bitcode or textual IR for LLVM.
        sources: computes the source files the content is made from, if there are any.
        description: one line for people.
        program: how to build and run it, if it can run.
        recompile: computes the content again with more flags for clang, if it was compiled from sources.
        source_tree: computes all that another compiler needs to compile it from its sources, if that is known.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_content",
        "_key",
        "_loader",
        "_lock",
        "_recipe",
        "_recompile",
        "_source_form",
        "_source_tree",
        "_sources",
        "description",
        "program",
        "uri",
    )

    def __init__(
        self,
        uri: BenchmarkUri | str,
        loader: Callable[[], bytes],
        *,
        sources: Callable[[], Iterable[BenchmarkSource]] | None = None,
        description: str = "",
        program: BenchmarkProgram | None = None,
        recompile: Callable[[Sequence[str]], bytes] | None = None,
        source_tree: Callable[[], SourceTree] | None = None,
    ) -> None:
        self.uri = BenchmarkUri.from_string(uri) if isinstance(uri, str) else uri
        self.description = description
        self.program = program
        self._loader = loader
        self._sources = sources
        self._recompile = recompile
        self._source_tree = source_tree
        self._source_form: Benchmark | None = None
        self._callbacks: list[ValidationCallback] = []
        self._lock = ForkedLock()
        self._content: bytes | None = None
        self._recipe: bytes | None = None if program is not None else b""
        self._key = ""

    @property
    def content(self) -> bytes:
        """The program in the compiler's own form, as a worker takes it.

        Raises:
            DatasetError: when it cannot be compiled, read or fetched.
        """
        if self._content is None:
            with self._lock:
                if self._content is None:
                    self._content = self._loader()
        return self._content

    @property
    def recipe(self) -> bytes:
        """How to build and run the program, as a worker takes it; empty when there is no `program`.

        It is empty, too, after a warning, when our runtime cannot be compiled: the program can still be optimised.
        """
        if self._recipe is None:
            with self._lock:
                if self._recipe is None:
                    self._recipe = self._encode_program()
        return self._recipe

    def _encode_program(self) -> bytes:
        from aiocg.datasets.recipe import encode_program  # it imports this module

        assert self.program is not None
        try:
            return encode_program(self.program)
        except CompilationCancelled:
            raise
        except (DatasetError, OSError) as error:
            warnings.warn(f"{self.uri} can be optimised, but not run: {error}", stacklevel=3)
            return b""

    @property
    def key(self) -> str:
        """SHA-256 of content and recipe, in hexadecimal: what is equal has an equal key, whatever its name."""
        if not self._key:
            digest = hashlib.sha256(self.content)
            if self.recipe:
                digest = hashlib.sha256(digest.digest() + self.recipe)
            self._key = digest.hexdigest()
        return self._key

    @property
    def is_loaded(self) -> bool:
        """Whether content and recipe are already there, so that reading them does no work."""
        return self._content is not None and self._recipe is not None

    @property
    def sources(self) -> tuple[BenchmarkSource, ...]:
        """The source files the content is made from; empty when they are not known."""
        return () if self._sources is None else tuple(self._sources())

    @staticmethod
    def from_file(path: str | os.PathLike[str], flags: Iterable[str] = ()) -> "Benchmark":
        """Make a benchmark of a .c, .cc, .cpp, .cxx, .ll or .bc file.

        Args:
            path: the file; `~` is expanded.
            flags: for clang; relative directories in them are relative to the working directory.

        Raises:
            BenchmarkNotFound: when there is no such file.
            BenchmarkInitError: when it is a directory, cannot be read, is empty, or has an unknown suffix.
        """
        from aiocg.datasets.files import benchmark_from_file  # it imports this module

        return benchmark_from_file(path, flags)

    @classmethod
    def from_file_contents(cls, uri: BenchmarkUri | str, contents: bytes) -> Self:
        """Make a benchmark of content that is already at hand (bitcode, or textual IR)."""
        data = bytes(contents)
        return cls(uri, lambda: data)

    def replace(self, *, program: BenchmarkProgram | None) -> "Benchmark":
        """Return a benchmark of the same content, and with the same tests, that is built and run otherwise."""
        other = Benchmark(
            self.uri,
            lambda: self.content,
            sources=self._sources,
            description=self.description,
            program=program,
            recompile=self._recompile,
            source_tree=self._source_tree,
        )
        other._callbacks = self._callbacks
        return other

    def recompiled(self, flags: Sequence[str]) -> "Benchmark | None":
        """Return a benchmark of the same sources, compiled with more flags; None when there are no sources."""
        recompile = self._recompile
        if recompile is None:
            return None
        return Benchmark(
            self.uri,
            lambda: recompile(flags),
            sources=self._sources,
            description=self.description,
            program=self.program,
            source_tree=self._source_tree,
        )

    @property
    def source_form(self) -> "Benchmark":
        """The same program for compilers that take sources: its content is that of a `SourceTree`.

        Raises:
            DatasetError: from its `content`, when the sources are not known or cannot be read.
        """
        if self._source_form is None:
            self._source_form = form = Benchmark(
                self.uri,
                lambda: self.source_tree.encode(),
                sources=self._sources,
                description=self.description,
                program=_linked_by_compiler(self.program),
                source_tree=self._source_tree,
            )
            form._callbacks = self._callbacks
        return self._source_form

    @property
    def source_tree(self) -> SourceTree:
        """All that a compiler needs to compile the program from its sources.

        Raises:
            BenchmarkInitError: when the sources are not known, as for what is published as bitcode.
            DatasetError: when they cannot be read or fetched.
        """
        if self._source_tree is None:
            raise BenchmarkInitError(
                str(self.uri),
                "its C or C++ sources are not known; this compiler needs them, so take a benchmark that has them, such "
                "as one of programs-v0 or a .c file",
            )
        return self._source_tree()

    def add_validation_callback(self, callback: "ValidationCallback") -> None:
        """Add a test of what the program does, for validation to call beside its own.

        Args:
            callback: an async function that takes an environment at the state in question, and returns an iterable of
                `aiocg.validation.ValidationError`, empty if nothing is wrong. It may change the environment.
        """
        self._callbacks.append(callback)

    @property
    def validation_callbacks(self) -> "tuple[ValidationCallback, ...]":
        """The tests that were added."""
        return tuple(self._callbacks)

    def is_validatable(self) -> bool:
        """Say whether there is a way to find out that the program still does what it should."""
        return bool(self._callbacks) or (self.program is not None and bool(self.program.runs))

    async def ivalidate(self, env: Any) -> AsyncIterator[Any]:
        """Call the tests that were added, one after the other, and yield the errors that they find.

        `aiocg.validation` does more: it compares the program with the unoptimised one.
        """
        for callback in self._callbacks:
            for error in await callback(env):
                yield error

    async def validate(self, env: Any) -> list[Any]:
        """Return all errors that the tests that were added find in the state of an environment."""
        return [error async for error in self.ivalidate(env)]

    def write_sources_to_directory(self, directory: str | os.PathLike[str]) -> int:
        """Write the source files below a directory, which is made if needed, and return how many there are.

        Raises:
            BenchmarkInitError: when a source's name would lead out of the directory.
        """
        root = Path(directory)
        root.mkdir(parents=True, exist_ok=True)
        sources = self.sources
        for source in sources:
            relative = Path(source.filename)
            if relative.is_absolute() or ".." in relative.parts:
                raise BenchmarkInitError(
                    str(self.uri), f"the source name {source.filename!r} is not a path below its benchmark"
                )
            target = root / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.contents)
        return len(sources)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content, not the way to it; what is loaded is a plain benchmark, which is not recompiled."""
        tree: SourceTree | None = None
        if self._source_tree is not None:
            with contextlib.suppress(DatasetError):
                tree = self._source_tree()
        state = (self.uri, self.content, self.sources, self.description, self.program, self.validation_callbacks, tree)
        return _unpickled, state

    def __eq__(self, other: object) -> bool:
        return self.uri == other.uri if isinstance(other, Benchmark) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.uri)

    def __str__(self) -> str:
        return str(self.uri)

    def __repr__(self) -> str:
        return f"<Benchmark {self.uri}>"


def _linked_by_compiler(program: BenchmarkProgram | None) -> BenchmarkProgram | None:
    """Return a program that the compiler at hand links with the libraries that it finds, if nothing else is said."""
    if program is None or program.command or program.freestanding:
        return program
    driver = "{clang++}" if program.language == "c++" else "{clang}"
    return dataclasses.replace(program, command=(driver, "-o", "program", "program.o", "-lm"))


def _unpickled(
    uri: BenchmarkUri,
    content: bytes,
    sources: tuple[BenchmarkSource, ...],
    description: str,
    program: BenchmarkProgram | None,
    callbacks: Sequence[ValidationCallback],
    tree: SourceTree | None = None,
) -> Benchmark:
    benchmark = Benchmark(
        uri,
        lambda: content,
        sources=lambda: sources,
        description=description,
        program=program,
        source_tree=None if tree is None else lambda: tree,
    )
    for callback in callbacks:
        benchmark.add_validation_callback(callback)
    return benchmark
