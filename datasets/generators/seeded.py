"""The base of generated datasets, named by a seed and parameters, and running external generators.

`generator://csmith-v0/7?max-funcs=3&pointers=no` is seed 7, with a whole number and a switch.
"""

import abc
import dataclasses
import difflib
import functools
import hashlib
import itertools
import os
import re
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from aiocg.datasets._named_set import Details
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.cache import Cache, cache_directory
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import (
    BenchmarkInitError,
    BenchmarkNotFound,
    InvalidBenchmarkUri,
    ToolchainNotFound,
)
from aiocg.datasets.process import run_bounded, told_of
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import run_for_version
from aiocg.datasets.uri import BenchmarkUri

_FORMAT = "1"  # of the cache's keys


def said_version(executable: Path, remedy: str) -> str:
    """Return a program's output for `--version`, cached while the program is unchanged.

    Args:
        remedy: what to do when it does not run.

    Raises:
        ToolchainNotFound: when it cannot be run.
    """
    try:
        status = executable.stat()
    except OSError as error:
        raise ToolchainNotFound(f"{executable} cannot be run: {error}", remedy) from error
    return _said_version(executable, remedy, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=16)
def _said_version(executable: Path, remedy: str, modified: int, size: int) -> str:
    process = run_for_version(executable, remedy)
    if process.returncode:
        answer = process.stderr.strip() or f"exit status {process.returncode}"
        raise ToolchainNotFound(f"{executable} does not work: {answer[:300]}", remedy)
    return process.stdout


def generate(uri: str, identity: str, commands: Sequence[Sequence[str]], result: str, timeout: float) -> bytes:
    """Run commands in sequence in an empty folder and return a file that they write, or its cached content.

    The output depends only on the generator and its arguments, so failures are not retried.

    Args:
        identity: the generator and its release, since releases make different programs.
        timeout: seconds for each command.

    Raises:
        BenchmarkInitError: when a command fails, takes too long, or leaves no file or an empty one.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    cache, key = Cache(cache_directory() / "generated"), _key(identity, commands, result)
    kept = cache.read(key)
    if kept is not None:
        return zlib.decompress(kept)
    try:
        with scratch_folder() as folder:
            for command in commands:
                _run(uri, identity, command, folder, timeout)
            path = Path(folder, result)
            content = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise BenchmarkInitError(uri, f"cannot be generated in {tempfile.gettempdir()}: {error}") from error
    if not content:
        writer = f"{os.path.basename(commands[-1][0])} ({identity})"
        raise BenchmarkInitError(uri, f"{writer} has written nothing to {result}, and says that all is well")
    cache.keep(key, zlib.compress(content, 1), f"{uri} was generated")  # compressed to a fourth of its size
    return content


def _key(identity: str, commands: Sequence[Sequence[str]], result: str) -> str:
    words = [[os.path.basename(command[0]), *command[1:]] for command in commands]
    return hashlib.sha256(repr((_FORMAT, identity, words, result)).encode()).hexdigest()


def _run(uri: str, identity: str, command: Sequence[str], folder: str, timeout: float) -> None:
    name = os.path.basename(command[0])
    late = f"{name} took longer than {timeout:g} s and was stopped, as it would be again; take another seed, or"
    late += " parameters that make smaller programs"
    with told_of(uri, command[0], late=late, cancelled="its generation was cancelled"):
        status, messages = run_bounded(command, cwd=folder, env={**os.environ, "LC_ALL": "C"}, timeout=timeout)
    if status:
        ended = f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"
        words = re.sub(r"\n{2,}", "\n", messages.strip())
        raise BenchmarkInitError(uri, f"{name} {ended} ({identity}); take another seed or other parameters", words)


Value = bool | int | str
"""The value of a parameter: of a `Switch`, an `Integer` or a `_Choice`."""

_NUMBER = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)
_SWITCH = {"yes": True, "no": False}


@dataclasses.dataclass(frozen=True, slots=True)
class Integer:
    """A parameter that is a whole number from `low` to `high`, with a default if one is documented."""

    low: int
    high: int
    default: int | None = None

    def parse(self, text: str) -> int | None:
        """Return the value that a URI spells so; None when there is none."""
        if len(text) > 20 or not _NUMBER.fullmatch(text):
            return None
        number = int(text)
        return number if self.low <= number <= self.high else None

    def __str__(self) -> str:
        default = "" if self.default is None else f", by default {self.default}"
        return f"a whole number from {self.low} to {self.high}{default}"


@dataclasses.dataclass(frozen=True, slots=True)
class Switch:
    """A parameter that is "yes" or "no"; a bool in Python."""

    def parse(self, text: str) -> bool | None:
        """Return the value that a URI spells so; None when there is none."""
        return _SWITCH.get(text)

    def __str__(self) -> str:
        return "'yes' or 'no'"


@dataclasses.dataclass(frozen=True, slots=True)
class _Choice:
    """A parameter that is one of some words."""

    words: tuple[str, ...]

    def parse(self, text: str) -> str | None:
        """Return the value that a URI spells so; None when there is none."""
        return text if text in self.words else None

    def __str__(self) -> str:
        return f"one of {', '.join(map(repr, self.words))}"


Parameter = Integer | Switch | _Choice


def read_parameters(
    uri: BenchmarkUri, owner: str, parameters: Mapping[str, Parameter], example: BenchmarkUri
) -> dict[str, Value]:
    """Parse the parameters of a URI, in declaration order.

    Args:
        example: a name of the same kind, which errors show with a parameter.

    Raises:
        InvalidBenchmarkUri: when there is no such parameter, it is given twice, or it cannot have that value.
    """

    def refused(reason: str, name: str = "") -> InvalidBenchmarkUri:
        name = name or next(iter(parameters), "")
        params = ((name, _example(parameters[name])),) if name else ()
        return InvalidBenchmarkUri(str(uri), reason, str(dataclasses.replace(example, params=params)))

    given: dict[str, Value] = {}
    for name, text in uri.params:
        parameter = parameters.get(name)
        if parameter is None:
            raise refused(_unknown(name, owner, parameters))
        if name in given:
            raise refused(f"the parameter {name!r} is given twice")
        value = parameter.parse(text)
        if value is None:
            raise refused(f"the parameter {name!r} cannot be {text!r}; it is {parameter}", name)
        given[name] = value
    return {name: given[name] for name in parameters if name in given}


def _unknown(name: str, owner: str, parameters: Mapping[str, Parameter]) -> str:
    if not parameters:
        return f"{owner} has no parameters"
    near = difflib.get_close_matches(name, parameters, n=1) or [name.removeprefix("no-")]
    if near[0] in parameters:
        return f"{owner} has no parameter {name!r}; did you mean {near[0]!r}, which is {parameters[near[0]]}?"
    return f"{owner} has no parameter {name!r}; it has {', '.join(parameters)}"


def _example(parameter: Parameter) -> str:
    if isinstance(parameter, Integer):
        return str(parameter.high if parameter.default is None else parameter.default)
    return parameter.words[0] if isinstance(parameter, _Choice) else "no"


SEEDS = 2**32
"""How many seeds there are; the first is 0."""


class SeededDataset(Dataset):
    """The programs that a generator makes of the seeds from 0 to `SEEDS - 1`.

    It is unbounded: its size is 0. The n-th program is that of seed n, so that slices and random draws work.
    Enumeration yields the programs without parameters.

    To make one, define `benchmark_of_seed`.

    Args:
        parameters: allowed in the query of a URI, by name. Names are words joined by hyphens.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        parameters: Mapping[str, Parameter] | None = None,
        **details: Unpack[Details],
    ) -> None:
        super().__init__(name, description, **details)
        self.parameters = dict(parameters or {})
        self._benchmarks: weakref.WeakValueDictionary[BenchmarkUri, Benchmark] = weakref.WeakValueDictionary()

    @abc.abstractmethod
    def benchmark_of_seed(self, uri: BenchmarkUri, seed: int, values: Mapping[str, Value]) -> Benchmark:
        """Make a benchmark of a seed and the given parameters, in their order; generating its content is deferred."""

    @property
    def size(self) -> int:
        """0: there are more programs than anybody enumerates."""
        return 0

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate the programs without parameters in the order of their seeds."""
        return map(self.uri_at, itertools.islice(itertools.count(), SEEDS))

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the name of the program of a seed; raise IndexError when there is no such seed."""
        if not 0 <= index < SEEDS:
            raise IndexError(f"{self.name} has no seed {index}: seeds are from 0 to {SEEDS - 1}")
        return BenchmarkUri(self.scheme, self.name, str(index))

    def position(self, uri: BenchmarkUri) -> int:
        """Return the seed of a program without parameters; raise BenchmarkNotFound when it is none."""
        if uri.params:
            raise BenchmarkNotFound(str(uri), f"{uri} has parameters: {self.name} enumerates programs without")
        return self._seed(uri)

    def benchmark_from_seed(self, seed: int, **parameters: Value) -> Benchmark:
        """Make the benchmark of a seed.

        Args:
            seed: from 0 to `SEEDS - 1`.
            parameters: by name, with underscores for the hyphens: `max_funcs=3, pointers=False`.

        Raises:
            BenchmarkNotFound: when there is no such seed.
            InvalidBenchmarkUri: when there is no such parameter, or it cannot have that value.
        """
        params = ((name.replace("_", "-"), _spelling(value)) for name, value in parameters.items())
        return self.benchmark(BenchmarkUri(self.scheme, self.name, str(int(seed)), tuple(params)))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of a seed; the object is shared while it is in use."""
        if known := self._benchmarks.get(uri):
            return known
        seed, values = self._seed(uri), read_parameters(uri, self.name, self.parameters, self.uri_at(1))
        benchmark = self.benchmark_of_seed(uri, seed, values)
        return self._benchmarks.setdefault(uri, benchmark)

    def _seed(self, uri: BenchmarkUri) -> int:
        seed = Integer(0, SEEDS - 1).parse(uri.path)
        if seed is None or uri.fragment:
            rest = uri.path + (f"#{uri.fragment}" if uri.fragment else "")
            seeds = f"its programs are named by seeds, which are whole numbers from 0 to {SEEDS - 1}"
            raise BenchmarkNotFound(str(uri), f"{self.name} has no program {rest!r}: {seeds}", self._first_names())
        return seed


def _spelling(value: Value) -> str:
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)
