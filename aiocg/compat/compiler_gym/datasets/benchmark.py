"""Programs under CompilerGym's names: made of content or files as it did, or of benchmarks of aiocg."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, NamedTuple

from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, ValidationError
from aiocg.compat.compiler_gym.service.proto import Benchmark as BenchmarkProto
from aiocg.compat.compiler_gym.service.proto import File
from aiocg.compat.compiler_gym.util import thread_pool
from aiocg.datasets.benchmark import Benchmark as NativeBenchmark

__all__ = ["Benchmark", "BenchmarkInitError", "BenchmarkSource", "BenchmarkWithSource", "ValidationCallback"]

ValidationCallback = Callable[[Any], "Iterable[ValidationError] | None"]
"""A function from an environment to what is wrong with its present state."""


class BenchmarkSource(NamedTuple):
    """A source file of a benchmark.

    Attributes:
        filename: a relative path.
        contents: the bytes of the file.
    """

    filename: str
    contents: bytes

    def __repr__(self) -> str:
        return self.filename


class FrozenBenchmark(AttributeError, TypeError):
    """An attribute was set that a benchmark does not have, or that cannot be set."""


class Benchmark:
    """A program. Benchmarks are equal when their URIs are, and to the text of their URI.

    Args:
        proto: its URI and content, as CompilerGym's messages have them.
        validation_callbacks: tests of what the program does.
        sources: the files it was made from, as `BenchmarkSource` or pairs.
    """

    def __init__(
        self,
        proto: BenchmarkProto | None,
        validation_callbacks: list[ValidationCallback] | None = None,
        sources: Iterable[Any] | None = None,
    ) -> None:
        state = self.__dict__
        state["_proto"] = proto
        state["_native"] = None
        state["_asked_for"] = None
        state["_validation_callbacks"] = validation_callbacks or []
        state["_sources"] = list(sources or [])

    @classmethod
    def from_native(cls, native: NativeBenchmark, asked_for: str | None = None) -> "Benchmark":
        """Make one of a benchmark of aiocg.

        Args:
            native: the benchmark.
            asked_for: URI of the one that it stands in for, to which it then is equal as well.
        """
        benchmark = cls(None)
        benchmark.__dict__["_native"] = native
        benchmark.__dict__["_asked_for"] = asked_for
        if native.is_validatable():
            from aiocg.compat.compiler_gym.datasets.native import behaviour_errors  # it imports this module

            benchmark._validation_callbacks.append(behaviour_errors)
        return benchmark

    @property
    def native(self) -> NativeBenchmark:
        """The benchmark of aiocg, which environments take.

        Raises:
            BenchmarkInitError: when there is no content.
        """
        if self._native is None:
            from aiocg.compat.compiler_gym.datasets.native import native_of  # it imports this module

            self.__dict__["_native"] = native_of(self)
        native: NativeBenchmark = self._native
        return native

    @property
    def uri(self) -> BenchmarkUri:
        """The name of the benchmark."""
        return BenchmarkUri.from_string(str(self._native.uri) if self._proto is None else self._proto.uri)

    @property
    def proto(self) -> Any:
        """Name and content as a message. Of a benchmark of aiocg it has the bitcode, which may have to be compiled."""
        if self._proto is None and self._native is not None:
            self.__dict__["_proto"] = BenchmarkProto(
                uri=str(self._native.uri), program=File(contents=self._native.content)
            )
        return self._proto

    @property
    def sources(self) -> Iterable[BenchmarkSource]:
        """The source files, if they are known."""
        known = [BenchmarkSource(*source) for source in self._sources]
        if self._native is not None:
            known += [BenchmarkSource(source.filename, source.contents) for source in self._native.sources]
        return known

    def is_validatable(self) -> bool:
        """Whether there are tests of what the program does."""
        return bool(self._validation_callbacks)

    def validate(self, env: Any) -> list[ValidationError]:
        """Test what the program does in the present state of an environment, and return what is wrong."""
        return list(self.ivalidate(env))

    def ivalidate(self, env: Any) -> Iterator[ValidationError]:
        """Do as `validate`, with the errors as they are found."""
        callbacks = list(self.validation_callbacks())
        if len(callbacks) == 1:
            yield from callbacks[0](env) or ()
            return
        executor = thread_pool.get_thread_pool_executor()
        for future in as_completed([executor.submit(callback, env) for callback in callbacks]):
            yield from future.result() or ()

    def validation_callbacks(self) -> list[ValidationCallback]:
        """Return the tests."""
        callbacks: list[ValidationCallback] = self._validation_callbacks
        return callbacks

    def add_source(self, source: BenchmarkSource) -> None:
        """Add a source file."""
        self._sources.append(source)

    def add_validation_callback(self, validation_callback: ValidationCallback) -> None:
        """Add a test: a function of an environment, which it does not change, that returns what is wrong."""
        self._validation_callbacks.append(validation_callback)

    def write_sources_to_directory(self, directory: str | Path) -> int:
        """Write the source files to a folder, which is made, and return how many there were."""
        root = Path(directory)
        root.mkdir(exist_ok=True, parents=True)
        written = set()
        for filename, contents in self.sources:
            path = root / filename
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(contents)
            written.add(path)
        return len(written)

    @classmethod
    def from_file(cls, uri: "str | BenchmarkUri", path: str | os.PathLike[str]) -> "Benchmark":
        """Make a benchmark of a file, which is read at once.

        Raises:
            FileNotFoundError: when there is none.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(str(path))
        return cls.from_file_contents(uri, Path(path).read_bytes())

    @classmethod
    def from_file_contents(cls, uri: "str | BenchmarkUri", data: bytes) -> "Benchmark":
        """Make a benchmark of the content of a file."""
        return cls(proto=BenchmarkProto(uri=str(uri), program=File(contents=data)))

    def __reduce__(self) -> Any:
        if self._proto is None and self._native is not None:
            from aiocg.compat.compiler_gym.datasets.native import unpickled  # it imports this module

            return unpickled, (type(self), str(self._native.uri), self._asked_for, self._native.content)
        return _restored, (type(self), {**self.__dict__, "_native": None})

    def __getattr__(self, name: str) -> Any:  # for type checkers: the fields are set through __dict__
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if type(self) is Benchmark and name not in self.__dict__:
            raise FrozenBenchmark(f"Cannot set attribute {name} on frozen class {type(self).__name__}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return str(self.uri)

    def __hash__(self) -> int:
        return hash(self.uri)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Benchmark):
            return self.uri == other.uri
        return self.uri == other or (self._asked_for is not None and str(other) == self._asked_for)

    def __lt__(self, other: object) -> bool:
        return self.uri < (other.uri if isinstance(other, Benchmark) else other)

    def __le__(self, other: object) -> bool:
        return self < other or self == other


def _restored(kind: type[Benchmark], state: dict[str, Any]) -> Benchmark:
    benchmark = kind.__new__(kind)
    benchmark.__dict__.update(state)
    return benchmark


class BenchmarkWithSource(Benchmark):
    """A benchmark of one source file."""

    @classmethod
    def create(
        cls, uri: str, input_path: str | os.PathLike[str], src_name: str, src_path: str | os.PathLike[str]
    ) -> "BenchmarkWithSource":
        """Make one of two files.

        Args:
            uri: its name.
            input_path: the file that the compiler gets.
            src_name: the name of the source file.
            src_path: where it is.

        Raises:
            FileNotFoundError: when the first of them is not there.
        """
        benchmark = cls.from_file(uri, input_path)
        assert isinstance(benchmark, cls)
        benchmark._src_name, benchmark._src_path = src_name, src_path
        return benchmark

    @property
    def sources(self) -> Iterable[BenchmarkSource]:
        """The source file."""
        if "_src_path" not in self.__dict__:
            return super().sources
        return [BenchmarkSource(self._src_name, Path(self._src_path).read_bytes())]

    @property
    def source(self) -> str:
        """The text of the source file."""
        return next(iter(self.sources)).contents.decode("utf-8")
