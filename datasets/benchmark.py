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
from aiocg.datasets.llvm_releases import using
from aiocg.datasets.locking import ForkedLock
from aiocg.datasets.program_file import FLAG, ProgramFile
from aiocg.datasets.recipe import BenchmarkProgram, encode_program, linked_by_compiler
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.uri import BenchmarkUri

_SOURCES = "sources"  # beside releases

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
        source_tree: computes what another compiler needs to compile it from source, if known.
        release: of the LLVM whose clang compiles it, if not the default.
    """

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
        release: str = "",
    ) -> None:
        self.uri = BenchmarkUri.from_string(uri) if isinstance(uri, str) else uri
        self.description = description
        self.program = program
        self._loader = loader
        self._sources = sources
        self._recompile = recompile
        self._source_tree = source_tree
        self._release = release
        self._forms: dict[str, Benchmark] = {}
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
                    with using(self._release):
                        self._content = self._loader()
        return self._content

    @property
    def recipe(self) -> bytes:
        """How to build and run the program, as a worker takes it; empty when there is no `program`.

        Also empty, after a warning, when our runtime cannot be compiled: the program can still be optimised.
        """
        if self._recipe is None:
            with self._lock:
                if self._recipe is None:
                    self._recipe = self._encode_program()
        return self._recipe

    def _encode_program(self) -> bytes:
        assert self.program is not None
        try:
            with using(self._release):
                return encode_program(self.program)
        except CompilationCancelled:
            raise
        except (DatasetError, OSError) as error:
            warnings.warn(f"{self.uri} can be optimised, but not run: {error}", stacklevel=3)
            return b""

    @property
    def key(self) -> str:
        """SHA-256 of content and recipe, in hexadecimal, independent of the name."""
        if not self._key:
            digest = hashlib.sha256(self.content)
            if self.recipe:
                digest = hashlib.sha256(digest.digest() + self.recipe)
            self._key = digest.hexdigest()
        return self._key

    @property
    def is_loaded(self) -> bool:
        """Whether content and recipe are already computed."""
        return self._content is not None and self._recipe is not None

    @property
    def sources(self) -> tuple[BenchmarkSource, ...]:
        """The source files the content is made from; empty when they are not known."""
        return () if self._sources is None else tuple(self._sources())

    @staticmethod
    def from_file(path: str | os.PathLike[str], flags: Iterable[str] = ()) -> "Benchmark":
        """Make a benchmark of a C or C++ source, preprocessed or not, or of a .ll or .bc file.

        C and C++ are compiled on first use of the content; `.ll` and `.bc` are taken as they are.

        Args:
            path: the file; `~` is expanded.
            flags: for clang; relative directories in them are relative to the working directory.

        Raises:
            BenchmarkNotFound: when there is no such file.
            BenchmarkInitError: when it is a directory, cannot be read, is empty, or has an unknown suffix.
        """
        file = ProgramFile.given(path, flags)
        uri = BenchmarkUri.from_file(str(file.path), ((FLAG, flag) for flag in file.flags))
        return Benchmark.from_program_file(uri, file, file.path.name)

    @staticmethod
    def from_program_file(uri: BenchmarkUri, file: ProgramFile, filename: str) -> "Benchmark":
        """Make a benchmark of a checked file.

        Args:
            uri: the benchmark's name.
            file: the file, with its flags.
            filename: what it is called among the benchmark's sources.
        """
        return Benchmark(
            uri,
            file.content,
            sources=lambda: [BenchmarkSource(filename, file.read())],
            description=f"the file {file.path}",
            program=file.program,
            recompile=file.content if file.language else None,
            source_tree=file.source_tree if file.language else None,
        )

    @classmethod
    def from_file_contents(cls, uri: BenchmarkUri | str, contents: bytes) -> Self:
        """Make a benchmark of bitcode or textual IR in memory."""
        data = bytes(contents)
        return cls(uri, lambda: data)

    def replace(self, *, program: BenchmarkProgram | None) -> "Benchmark":
        """Return a benchmark with the same content and tests, but another program or recipe."""
        return self._copy(lambda: self.content, program=program)

    def _copy(self, loader: Callable[[], bytes], **changes: Any) -> "Benchmark":
        """Return a benchmark of the same name with another loader, and perhaps other arguments."""
        same: dict[str, Any] = {
            "sources": self._sources,
            "description": self.description,
            "program": self.program,
            "recompile": self._recompile,
            "source_tree": self._source_tree,
            "release": self._release,
        }
        other = Benchmark(self.uri, loader, **(same | changes))
        other._callbacks = self._callbacks
        return other

    def with_runs(self, names: Sequence[str]) -> "Benchmark":
        """Return a benchmark with only some of its runs, all carried; it must have a `program`."""
        program = self.program
        assert program is not None
        if list(names) == list(program.runs) and program.carried is None:
            return self
        runs = {name: program.runs[name] for name in names}
        measured = program.measured if program.measured in runs else ""
        return self.replace(program=dataclasses.replace(program, runs=runs, measured=measured, carried=None))

    def recompiled(self, flags: Sequence[str]) -> "Benchmark | None":
        """Return a benchmark of the same sources, compiled with more flags; None when there are no sources."""
        recompile, tree = self._recompile, self._source_tree
        if recompile is None:
            return None

        def with_flags() -> SourceTree:
            assert tree is not None
            known = tree()
            return dataclasses.replace(known, flags=(*known.flags, *flags))

        return self._copy(lambda: recompile(flags), recompile=None, source_tree=with_flags if tree else None)

    @property
    def source_form(self) -> "Benchmark":
        """The same program for compilers that take sources: its content is that of a `SourceTree`.

        Raises:
            DatasetError: from its `content`, when the sources are not known or cannot be read.
        """
        if _SOURCES not in self._forms:
            program = linked_by_compiler(self.program)
            self._forms[_SOURCES] = self._copy(lambda: self.source_tree.encode(), program=program, recompile=None)
        return self._forms[_SOURCES]

    def compiled_by(self, release: str) -> "Benchmark":
        """Return the same program, compiled by the clang of a release such as "19"; by the default one if "".

        What is published as bitcode stays as it is.
        """
        if release in ("", self._release):
            return self
        if release not in self._forms:
            self._forms[release] = self._copy(self._loader, release=release)
        return self._forms[release]

    @property
    def source_tree(self) -> SourceTree:
        """What a compiler needs to compile the program from source.

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
        """Return whether the program's behaviour can be validated."""
        return bool(self._callbacks) or (self.program is not None and bool(self.program.runs))

    async def ivalidate(self, env: Any) -> AsyncIterator[Any]:
        """Call the added tests one by one, and yield the errors that they find.

        `aiocg.validation` does more: it compares the program with the unoptimised one.
        """
        for callback in self._callbacks:
            for error in await callback(env):
                yield error

    async def validate(self, env: Any) -> list[Any]:
        """Return all errors that the added tests find in the state of an environment."""
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
                reason = f"the source name {source.filename!r} is not a path below its benchmark"
                raise BenchmarkInitError(str(self.uri), reason)
            target = root / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.contents)
        return len(sources)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the content, not the loader; the copy cannot be recompiled."""
        tree: SourceTree | None = None
        if self._source_tree is not None:
            with contextlib.suppress(DatasetError):
                tree = self._source_tree()
        known = {"description": self.description, "program": self.program}
        return _unpickled, (self.uri, self.content, self.sources, self.validation_callbacks, tree, known)

    def __eq__(self, other: object) -> bool:
        return self.uri == other.uri if isinstance(other, Benchmark) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.uri)

    def __str__(self) -> str:
        return str(self.uri)

    def __repr__(self) -> str:
        return f"<Benchmark {self.uri}>"


def _unpickled(
    uri: BenchmarkUri,
    content: bytes,
    sources: tuple[BenchmarkSource, ...],
    callbacks: Iterable[ValidationCallback],
    tree: SourceTree | None,
    known: Mapping[str, Any],
) -> Benchmark:
    source_tree = None if tree is None else lambda: tree
    benchmark = Benchmark(uri, lambda: content, sources=lambda: sources, source_tree=source_tree, **known)
    benchmark._callbacks = list(callbacks)
    return benchmark
