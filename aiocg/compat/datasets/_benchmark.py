"""CompilerGym's benchmarks: made from content or files, or from aiocg's benchmarks."""

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlparse

import msgspec

from aiocg.compat._errors import BenchmarkInitError, ValidationError
from aiocg.compat._model import Model
from aiocg.compat.service import _messages as messages
from aiocg.compat.tools._processes import get_thread_pool_executor
from aiocg.datasets import errors as native_errors
from aiocg.datasets.benchmark import Benchmark as NativeBenchmark
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.registry import default_datasets
from aiocg.datasets.uri import BenchmarkUri as NativeUri
from aiocg.states.result import ValidationError as NativeError


class LikeText:
    """A mixin for objects that compare, sort and hash like a text."""

    def _text(self) -> str:
        return str(self)

    def __hash__(self) -> int:
        return hash(self._text())

    def __eq__(self, other: object) -> bool:
        return self._text() == _text_of(other)

    def __lt__(self, other: object) -> bool:
        return self._text() < _text_of(other)

    def __le__(self, other: object) -> bool:
        return self < other or self == other


def _text_of(one: object) -> str:
    return one._text() if isinstance(one, LikeText) else str(one)


class BenchmarkUri(LikeText, Model):
    """A URI `scheme://dataset/path?params#fragment`. It compares equal to its text."""

    scheme: str
    dataset: str
    path: str
    params: dict[str, list[str]] = {}
    fragment: str = ""

    @staticmethod
    def canonicalize(uri: str) -> str:
        """Return a URI in full, including its scheme."""
        return str(BenchmarkUri.from_string(uri))

    @classmethod
    def from_string(cls, uri: "str | BenchmarkUri") -> "BenchmarkUri":
        """Parse a URI."""
        parts = urlparse(str(uri))
        if not parts.scheme and not parts.netloc:
            parts = urlparse(f"benchmark://{uri}")
        named = {"scheme": parts.scheme, "dataset": parts.netloc, "path": parts.path, "fragment": parts.fragment}
        return cls(**named, params=parse_qs(parts.query))

    def startswith(self, *args: Any) -> bool:
        """Call `str.startswith` on the text."""
        return str(self).startswith(*args)

    def endswith(self, *args: Any) -> bool:
        """Call `str.endswith` on the text."""
        return str(self).endswith(*args)

    def __repr__(self) -> str:
        path = self.path if not self.dataset or not self.path or self.path.startswith("/") else f"/{self.path}"
        text = f"{self.scheme}:" + (f"//{self.dataset}{path}" if self.dataset or path else "")
        query = f"?{urlencode(self.params, doseq=True)}" if self.params else ""
        return f"{text}{query}" + (f"#{self.fragment}" if self.fragment else "")

    def __str__(self) -> str:
        return repr(self)


def native_of(proto: Any, uri: BenchmarkUri) -> NativeBenchmark:
    """Convert a message to an aiocg benchmark; raise BenchmarkInitError if the message has no content."""
    program = proto.program if proto is not None else None
    contents, location = getattr(program, "contents", b""), getattr(program, "uri", "")
    if not contents and not location:
        raise BenchmarkInitError(f"No program set in Benchmark message for {uri}")
    load = functools.partial(bytes, contents) if contents else functools.partial(_read, location)
    return NativeBenchmark(_native_uri(uri), load, program=_program(proto))


def _read(location: str) -> bytes:
    if not location.startswith("file://"):
        raise BenchmarkInitError(f'Invalid benchmark data URI. Only the file:/// scheme is supported: "{location}"')
    path = location.removeprefix("file://")
    try:
        return Path("/" + path.lstrip("/") if path.startswith("/") else path).read_bytes()
    except OSError as error:
        raise native_errors.BenchmarkInitError(location, f"cannot be read: {error.strerror}") from error


def _native_uri(uri: BenchmarkUri) -> NativeUri:
    try:
        return NativeUri.from_string(str(uri))
    except native_errors.InvalidBenchmarkUri:  # CompilerGym accepts any text as a name
        path = "/".join(part for part in uri.path.split("/") if part not in ("", ".", ".."))
        return NativeUri("benchmark", "user-v0", path or "program")


def _program(proto: Any) -> BenchmarkProgram | None:
    """Translate the build and run commands of a message, or return None if aiocg has no equivalent."""
    dynamic: Any = proto.dynamic_config
    build, words = list(dynamic.build_cmd.argument), list(dynamic.run_cmd.argument)
    if not build or not words or dynamic.pre_run_cmd:
        return None
    name = Path(words[0]).name
    output = next((one for one in dynamic.build_cmd.outfile or [name] if Path(one).name == name), None)
    if output is None:
        return None
    starts = [place for place, word in enumerate(build) if word in ("$CC", "$CXX")]
    build = build[starts[-1] :] if starts else build  # of merged commands, the last one counts
    places = {"$CC": "{clang}", "$CXX": "{clang++}", "$IN": "program.bc", output: "program"}
    places |= dict.fromkeys(("cc", "gcc", "clang"), "{clang}") | dict.fromkeys(("c++", "g++", "clang++"), "{clang++}")
    command = tuple(places.get(word, word) for word in build)
    if "program" not in command:  # it relies on the compiler's default name for its output
        command += ("-o", "program")
    timeout = float(dynamic.run_cmd.timeout_seconds) or 300.0
    return BenchmarkProgram("c", runs={"run": ProgramRun(tuple(words[1:]), timeout=timeout)}, command=command)


def behaviour_errors(env: Any) -> list[ValidationError]:
    """Validate the program in the environment's current state with aiocg's own validation, as a callback."""
    result = env.unwrapped.native.validate(minimize=False)
    wrong = (error for error in result.errors if error.kind not in _NOT_BEHAVIOUR)
    return [ValidationError(type=_type(error), data=dict(error.data)) for error in wrong]


def _type(error: NativeError) -> str:
    """Return CompilerGym's name of an error."""
    name = msgspec.structs.replace(error, by_itself=False).type
    return f"Gold standard: {name}" if error.by_itself else name


_NOT_BEHAVIOUR = ("Replay failed", "Another state", "Wrong reward")

ValidationCallback = Callable[[Any], "Iterable[ValidationError] | None"]
"""A function that takes an environment and returns the errors in its current state."""


class BenchmarkSource(NamedTuple):
    """A source file of a benchmark."""

    filename: str
    contents: bytes

    def __repr__(self) -> str:
        return self.filename


class FrozenBenchmark(AttributeError, TypeError):
    """An attempt to set an attribute that a benchmark does not have, or that is read-only."""


class Benchmark(LikeText):
    """A program. A benchmark compares equal to any benchmark with the same URI, and to the text of that URI."""

    _proto: Any
    _native: NativeBenchmark | None
    _asked_for: str | None
    _validation_callbacks: list[ValidationCallback]
    _sources: list[Any]

    def __init__(
        self,
        proto: Any,
        validation_callbacks: list[ValidationCallback] | None = None,
        sources: Iterable[Any] | None = None,
    ) -> None:
        self.__dict__.update(_proto=proto, _native=None, _asked_for=None)
        self.__dict__.update(_validation_callbacks=validation_callbacks or [], _sources=list(sources or []))

    @classmethod
    def from_native(cls, native: NativeBenchmark, asked_for: str | None = None) -> "Benchmark":
        """Make a benchmark from one of aiocg's.

        Args:
            native: the benchmark.
            asked_for: the URI of the benchmark that it replaces; it then compares as that URI.
        """
        benchmark = cls(None)
        benchmark.__dict__.update(_native=native, _asked_for=asked_for)
        if native.is_validatable():
            benchmark.add_validation_callback(behaviour_errors)
        return benchmark

    @property
    def native(self) -> NativeBenchmark:
        """aiocg's benchmark, which is what environments load."""
        if self._native is None:
            self.__dict__["_native"] = native_of(self._proto, self.uri)
        assert self._native is not None
        return self._native

    @property
    def uri(self) -> BenchmarkUri:
        """The name of the benchmark."""
        return BenchmarkUri.from_string(str(self._native.uri) if self._proto is None else self._proto.uri)  # type: ignore[union-attr]

    @property
    def proto(self) -> Any:
        """The name and content as a message. For one of aiocg's benchmarks, this may compile the program first."""
        if self._proto is None and self._native is not None:
            message = messages.Benchmark(uri=str(self._native.uri), program={"contents": self._native.content})
            self.__dict__["_proto"] = message
        return self._proto

    @property
    def says_how_to_build(self) -> bool:
        """Whether it was made from a message with a build command."""
        return self._proto is not None and bool(self._proto.dynamic_config.build_cmd.argument)

    @property
    def sources(self) -> Iterable[BenchmarkSource]:
        """The source files, if they are known."""
        of_native = self._native.sources if self._native is not None else ()
        return [BenchmarkSource(*one) for one in [*self._sources, *((one.filename, one.contents) for one in of_native)]]

    def is_validatable(self) -> bool:
        """Whether the behaviour of the program can be tested."""
        return bool(self._validation_callbacks)

    def validate(self, env: Any) -> list[ValidationError]:
        """Test the program's behaviour in the environment's current state, and return the errors."""
        return list(self.ivalidate(env))

    def ivalidate(self, env: Any) -> Iterator[ValidationError]:
        """Like `validate`, but yield each error as soon as it is found."""
        callbacks = list(self.validation_callbacks())
        if len(callbacks) == 1:
            yield from callbacks[0](env) or ()
            return
        executor = get_thread_pool_executor()
        for future in as_completed([executor.submit(callback, env) for callback in callbacks]):
            yield from future.result() or ()

    def validation_callbacks(self) -> list[ValidationCallback]:
        """Return the validation callbacks."""
        return self._validation_callbacks

    def add_source(self, source: BenchmarkSource) -> None:
        """Add a source file."""
        self._sources.append(source)

    def add_validation_callback(self, validation_callback: ValidationCallback) -> None:
        """Add a callback that takes an environment, leaves it unchanged, and returns the errors in its state."""
        self._validation_callbacks.append(validation_callback)

    def write_sources_to_directory(self, directory: str | Path) -> int:
        """Write the source files to a folder, which is created if necessary, and return their number."""
        paths = {Path(directory, filename): contents for filename, contents in self.sources}
        Path(directory).mkdir(exist_ok=True, parents=True)
        for path, contents in paths.items():
            path.parent.mkdir(exist_ok=True, parents=True)
            path.write_bytes(contents)
        return len(paths)

    @classmethod
    def from_file(cls, uri: "str | BenchmarkUri", path: str | os.PathLike[str]) -> "Benchmark":
        """Make a benchmark from a file, which is read immediately."""
        if not Path(path).is_file():
            raise FileNotFoundError(str(path))
        return cls.from_file_contents(uri, Path(path).read_bytes())

    @classmethod
    def from_file_contents(cls, uri: "str | BenchmarkUri", data: bytes) -> "Benchmark":
        """Make a benchmark from the content of a file."""
        return cls(proto=messages.Benchmark(uri=str(uri), program={"contents": data}))

    def __reduce__(self) -> Any:
        if self._proto is None and self._native is not None:
            return _unpickled, (type(self), str(self._native.uri), self._asked_for, self._native.content)
        return object.__new__, (type(self),), {**self.__dict__, "_native": None}

    def __setattr__(self, name: str, value: Any) -> None:
        if type(self) is Benchmark and name not in self.__dict__:
            raise FrozenBenchmark(f"Cannot set attribute {name} on frozen class {type(self).__name__}")
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return str(self.uri)

    def _text(self) -> str:
        return self._asked_for or str(self)


def _unpickled(kind: type[Benchmark], uri: str, asked_for: str | None, content: bytes) -> Benchmark:
    try:
        native = default_datasets().benchmark(NativeUri.from_string(uri))
    except native_errors.DatasetError:  # no dataset on this machine has it
        native = NativeBenchmark.from_file_contents(uri, content)
    return kind.from_native(native, asked_for)


class BenchmarkWithSource(Benchmark):
    """A benchmark compiled from one source file."""

    _source: tuple[str, str | os.PathLike[str]] | None = None

    @classmethod
    def create(
        cls, uri: str, input_path: str | os.PathLike[str], src_name: str, src_path: str | os.PathLike[str]
    ) -> "BenchmarkWithSource":
        """Make a benchmark from two files: the input of the compiler, and its source."""
        benchmark = cls.from_file(uri, input_path)
        assert isinstance(benchmark, cls)
        benchmark._source = (src_name, src_path)
        return benchmark

    @property
    def sources(self) -> Iterable[BenchmarkSource]:
        if self._source is None:
            return super().sources
        return [BenchmarkSource(self._source[0], Path(self._source[1]).read_bytes())]

    @property
    def source(self) -> str:
        """The text of the source file."""
        return next(iter(self.sources)).contents.decode("utf-8")
