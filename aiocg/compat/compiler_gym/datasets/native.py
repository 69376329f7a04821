"""Benchmarks and datasets of aiocg under CompilerGym's names, and CompilerGym's as aiocg takes them."""

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiocg.compat.compiler_gym.datasets.benchmark import Benchmark
from aiocg.compat.compiler_gym.datasets.dataset import Dataset
from aiocg.compat.compiler_gym.datasets.reachability import unreachable
from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, DatasetInitError, DownloadFailed, ValidationError
from aiocg.datasets import errors
from aiocg.datasets.benchmark import Benchmark as Native
from aiocg.datasets.benchmark import BenchmarkProgram, ProgramRun
from aiocg.datasets.dataset import Dataset as NativeSet
from aiocg.datasets.registry import default_datasets
from aiocg.datasets.site import is_offline
from aiocg.datasets.uri import BenchmarkUri as NativeUri

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "DatasetUnreachable",
    "NativeDataset",
    "behaviour_errors",
    "benchmark_from_message",
    "in_their_words",
    "native_of",
    "unpickled",
]

_NOT_BEHAVIOUR = ("Replay failed", "Another state", "Wrong reward")


@contextlib.contextmanager
def in_their_words(subject: object) -> Iterator[None]:
    """Return a context manager that raises the errors of aiocg's datasets as CompilerGym's.

    Args:
        subject: the benchmark or dataset, for messages.
    """
    try:
        yield
    except (errors.BenchmarkNotFound, errors.DatasetNotFound) as error:
        raise LookupError(f"Benchmark not found: {subject} ({error})") from error
    except errors.InvalidBenchmarkUri as error:
        raise ValueError(str(error)) from error
    except errors.BenchmarkInitError as error:
        raise BenchmarkInitError(str(error)) from error
    except errors.DownloadError as error:
        raise DownloadFailed(str(error)) from error
    except errors.DatasetError as error:
        raise DatasetInitError(str(error)) from error


class DatasetUnreachable(DatasetInitError):
    """A dataset is not installed, and its server does not answer.

    Attributes:
        reason: why it cannot be fetched.
    """

    def __init__(self, native: NativeSet, reason: str) -> None:
        super().__init__(
            f"the dataset {native.root} is not installed, and cannot be fetched: {reason}; when it can, or from "
            f"a copy of its files (AIOCG_DATASET_MIRROR), `aiocg dataset install {native.name}` does it"
        )
        self.reason = reason


class NativeDataset(Dataset):
    """A dataset of aiocg.

    Args:
        native: the dataset.
        can_be_validated: "Yes", "No" or "Partially"; by default what the dataset says.

    Attributes:
        hidden: collections find it by its name, but do not list it: CompilerGym did not have it.
    """

    hidden = False
    kind_of_benchmark = Benchmark

    def __init__(self, native: NativeSet, can_be_validated: str = "") -> None:
        name = str(native.root)
        super().__init__(
            name=name,
            description=native.description,
            license=native.license,
            benchmark_class=self.kind_of_benchmark,
            references=native.references,
            deprecated=_deprecation(native.deprecated),
            sort_order=native.sort_order,
            validatable=can_be_validated or ("Yes" if native.validatable else "No"),
        )
        self.native = native

    @property
    def has_site_data(self) -> bool:
        """Whether it has a folder of its own."""
        return True

    @property
    def site_data_path(self) -> Path:
        """Its folder, which need not exist."""
        return self.native.site_data_path

    @property
    def size(self) -> int:
        """How many benchmarks there are; 0 when there is no end of them."""
        if getattr(self.native, "_static_size", 0):  # known without its names
            return self.native.size
        with self._fetching(names=True):
            return self.native.size

    @property
    def installed(self) -> bool:
        """Whether nothing need be fetched before its benchmarks can be used."""
        return self.native.installed

    @property
    def can_be_had(self) -> bool:
        """Whether it is installed, or could be."""
        return self.native.installed or not (is_offline() or unreachable(self.native))

    def install(self) -> None:
        """Fetch what its benchmarks need.

        Raises:
            DatasetInitError, DownloadFailed: when that cannot be had.
        """
        super().install()
        with self._fetching():
            self.native.install()

    def uninstall(self) -> None:
        """Remove what was fetched."""
        with in_their_words(self.name):
            self.native.uninstall()

    def benchmark_uris(self) -> Iterator[str]:
        """Enumerate the names."""
        with self._fetching(names=True):
            yield from map(str, self.native.benchmark_uris())

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return a benchmark, whose content is fetched or compiled when it is used.

        Raises:
            LookupError: when there is none of that name.
            DatasetInitError: when the dataset cannot be fetched.
        """
        if self.deprecated:
            Dataset.install(self)  # warns
        with self._fetching(uri):
            benchmark: Benchmark = self.benchmark_class.from_native(
                self.native.benchmark(NativeUri.from_string(str(uri)))
            )
            return benchmark

    def _random_benchmark(self, random_state: "np.random.Generator") -> Benchmark:
        with self._fetching():
            chosen = self.native.random_benchmark(random_state)
        return self.benchmark(str(chosen.uri))

    @contextlib.contextmanager
    def _fetching(self, subject: object = None, *, names: bool = False) -> Iterator[None]:
        """Refuse at once what would wait for a server that does not answer, and translate errors."""
        if not self.native.installed and not (names and _has_names(self.native)):
            reason = unreachable(self.native)
            if reason:
                raise DatasetUnreachable(self.native, reason)
        with in_their_words(self.name if subject is None else subject):
            yield

    def __reduce__(self) -> Any:
        return _dataset_of, (self.native.name,)


def _dataset_of(name: str) -> Dataset:
    """Return a dataset of the defaults: what is left of one after pickling is its name."""
    from aiocg.compat.compiler_gym.datasets.llvm import llvm_datasets  # it imports this module

    return next(dataset for dataset in llvm_datasets() if BenchmarkUri.from_string(dataset.name).dataset == name)


def unpickled(kind: type[Benchmark], uri: str, asked_for: str | None, content: bytes) -> Benchmark:
    """Make a benchmark again that was pickled.

    Args:
        kind: its class.
        uri: its name.
        asked_for: what it stands in for.
        content: the program, in case no dataset has it here.
    """
    try:
        native = default_datasets().benchmark(NativeUri.from_string(uri))
    except errors.DatasetError:
        native = Native.from_file_contents(uri, content)
    return kind.from_native(native, asked_for)


def _deprecation(reason: str) -> str | None:
    """Return why a dataset is deprecated in CompilerGym's form, which names the one to use."""
    successor = re.match(r"use ([\w-]+)", reason)
    return f"Please use 'benchmark://{successor[1]}'; {reason}" if successor else reason or None


def _has_names(native: NativeSet) -> bool:
    """Say whether the names, and their number, are known without fetching anything."""
    folder = native.site_data_path
    return native.name == "cbench-v1" or (folder / "names").exists() or not hasattr(native, "urls")


# --------------------------------------------------------------------------------- theirs, as aiocg takes them


def native_of(benchmark: Benchmark) -> Native:
    """Return a benchmark of aiocg with the content of one that was made as CompilerGym's were.

    Raises:
        BenchmarkInitError: when it has no content.
    """
    proto = benchmark.proto
    program = proto.program if proto is not None else None
    contents, location = getattr(program, "contents", b""), getattr(program, "uri", "")
    if not contents and not location:
        raise BenchmarkInitError(f"No program set in Benchmark message for {proto.uri if proto else benchmark!r}")
    load = functools.partial(bytes, contents) if contents else functools.partial(_read, location)
    return Native(_native_uri(benchmark.uri), load, program=_program(proto))


def _read(location: str) -> bytes:
    if not location.startswith("file://"):
        raise BenchmarkInitError(f'Invalid benchmark data URI. Only the file:/// scheme is supported: "{location}"')
    path = location.removeprefix("file://")
    try:
        return Path("/" + path.lstrip("/") if path.startswith("/") else path).read_bytes()
    except OSError as error:
        raise errors.BenchmarkInitError(location, f"cannot be read: {error.strerror}") from error


def _native_uri(uri: BenchmarkUri) -> NativeUri:
    try:
        return NativeUri.from_string(str(uri))
    except errors.InvalidBenchmarkUri:  # any text was a name of a benchmark
        path = "/".join(part for part in uri.path.split("/") if part not in ("", ".", ".."))
        return NativeUri("benchmark", "user-v0", path or "program")


def _program(proto: Any) -> BenchmarkProgram | None:
    """Return how to build and run a program, if its message says it in a form that has an equivalent."""
    dynamic: Any = getattr(proto, "dynamic_config", None)
    build = list(getattr(getattr(dynamic, "build_cmd", None), "argument", ()) or ())
    run = getattr(dynamic, "run_cmd", None)
    words = list(getattr(run, "argument", ()) or ())
    if not build or not words or list(getattr(dynamic, "pre_run_cmd", ()) or ()):
        return None
    outputs = list(getattr(dynamic.build_cmd, "outfile", ()) or ()) or [Path(words[0]).name]
    output = next((one for one in outputs if Path(one).name == Path(words[0]).name), None)
    if output is None:
        return None
    starts = [place for place, word in enumerate(build) if word in ("$CC", "$CXX")]
    build = build[starts[-1] :] if starts else build  # where commands were merged, the last counts
    places = {"$CC": "{clang}", "$CXX": "{clang++}", "$IN": "program.bc", output: "program"}
    places |= dict.fromkeys(("cc", "gcc", "clang"), "{clang}") | dict.fromkeys(("c++", "g++", "clang++"), "{clang++}")
    command = tuple(places.get(word, word) for word in build)
    if "program" not in command:  # it relies on what the compiler calls it by itself
        command += ("-o", "program")
    timeout = float(getattr(run, "timeout_seconds", 0) or 0) or 300.0
    return BenchmarkProgram("c", runs={"run": ProgramRun(tuple(words[1:]), timeout=timeout)}, command=command)


def benchmark_from_message(path: str) -> Benchmark:
    """Make a benchmark of a file that has its message, as protocol buffers write it.

    Raises:
        BenchmarkInitError: when the file is something else.
    """
    from aiocg.compat.compiler_gym.service.proto import Benchmark as BenchmarkProto

    message = BenchmarkProto()
    try:
        message.ParseFromString(Path(path).read_bytes())
    except (ValueError, AttributeError) as error:
        raise BenchmarkInitError(f"{path} is not a message with a benchmark: {error}") from error
    return Benchmark(proto=message)


def behaviour_errors(env: Any) -> Iterable[ValidationError]:
    """Test what the program does in the present state of an environment: aiocg's own validation, as a callback."""
    result = env.unwrapped.native.validate()
    return [
        ValidationError(type=error.type, data=dict(error.data))
        for error in result.errors
        if error.kind not in _NOT_BEHAVIOUR
    ]
