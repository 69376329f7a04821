"""States of environments, and files of them, as CompilerGym wrote them."""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Self, TextIO

from aiocg.compat.compiler_gym.util.truncate import truncate
from aiocg.compat.model import Field, Model

__all__ = ["CompilerEnvState", "CompilerEnvStateReader", "CompilerEnvStateWriter"]

COLUMNS = ("benchmark", "reward", "walltime", "commandline")
TOLERANCE = 1e-5  # by which the rewards of equal states may differ
TIMEOUT = 60.0  # seconds without a byte of a state file on the web

_CSV_ADDRESS = re.compile(r"^(http|https)://[a-zA-Z0-9.\-_/:%]+(\.csv)$")


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (str, int, float)):
        return str(value)
    raise TypeError("str type expected")


def _uri(value: Any) -> str:
    from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri  # it is not needed for reading files

    return str(value) if isinstance(value, BenchmarkUri) else _text(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError("value is not a valid float") from None


def _walltime(value: Any) -> float:
    seconds = _number(value)
    if not seconds >= 0:
        raise ValueError("Walltime cannot be negative")
    return seconds


class CompilerEnvState(Model):
    """A benchmark and the actions that were applied to it.

    Two states are equal when their benchmarks and command lines are, and their rewards nearly, if both have one. How
    long it took does not matter.

    Attributes:
        benchmark: URI of the program; cannot be set again.
        commandline: the actions as a command line.
        walltime: seconds of the episode.
        reward: the cumulative reward, if there was one.
    """

    benchmark: str
    commandline: str
    walltime: float
    reward: float | None

    _fields: ClassVar = {
        "benchmark": Field(_uri, frozen=True),
        "commandline": Field(_text),
        "walltime": Field(_walltime),
        "reward": Field(lambda value: None if value is None else _number(value), default=None),
    }

    __hash__ = None  # type: ignore[assignment]  # equality has a tolerance

    @property
    def has_reward(self) -> bool:
        """Whether there is a reward."""
        return self.reward is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CompilerEnvState):
            return False
        if self.reward is not None and other.reward is not None and not abs(self.reward - other.reward) < TOLERANCE:
            return False
        return self.benchmark == other.benchmark and self.commandline == other.commandline


class CompilerEnvStateWriter:
    """Writes states to a file as CSV; as a context manager it closes the file.

    Args:
        f: the file, open for writing text.
        header: whether the first line names the columns.
    """

    def __init__(self, f: TextIO, header: bool = True) -> None:
        self.f = f
        self.writer = csv.writer(f, lineterminator="\n")
        self.header = header

    def write_state(self, state: CompilerEnvState, flush: bool = False) -> None:
        """Write one state.

        Args:
            state: what to write.
            flush: hand it to the system at once.
        """
        if self.header:
            self.writer.writerow(COLUMNS)
            self.header = False
        self.writer.writerow((state.benchmark, state.reward, state.walltime, state.commandline))
        if flush:
            self.f.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.f.close()


class CompilerEnvStateReader:
    """Reads states from a CSV file, by iterating; as a context manager it closes the file.

    The first line may name the columns, in any order; without it they are `benchmark,reward,walltime,commandline`.

    Args:
        f: the file, open for reading text.
    """

    def __init__(self, f: TextIO) -> None:
        csv.field_size_limit(sys.maxsize)  # long episodes have long command lines
        self.f = f
        self.reader = csv.reader(f)

    def __iter__(self) -> Iterator[CompilerEnvState]:
        rows = (row for row in self.reader if row)
        first = next(rows, None)
        if first is None:
            return
        if len(first) != len(COLUMNS):
            raise ValueError(f"Expected {len(COLUMNS)} columns in the first row of CSV: {truncate(str(first))}")
        lowered = [name.strip().lower() for name in first]
        order = list(range(len(COLUMNS)))
        if set(lowered) == set(COLUMNS):
            order = [lowered.index(name) for name in COLUMNS]
        else:
            yield _state(first)
        for row in rows:
            if len(row) != len(COLUMNS):
                raise ValueError(
                    f"Expected {len(COLUMNS)} columns in line {self.reader.line_num} of CSV: {truncate(str(row))}"
                )
            yield _state([row[column] for column in order])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.f.close()

    @staticmethod
    def read_paths(paths: Iterable[str]) -> Iterator[CompilerEnvState]:
        """Read the states of several files, one after the other.

        Args:
            paths: of files, addresses of `.csv` files on the web, or `-` for standard input.

        Raises:
            OSError: when a file cannot be read; `requests.exceptions.InvalidURL` when an address has none.
            ValueError: when a file is not what a writer writes.
        """
        for path in paths:
            opened = _opener(str(path))()
            try:
                yield from CompilerEnvStateReader(opened)
            finally:
                if opened is not sys.stdin:
                    opened.close()


def _opener(path: str) -> Callable[[], TextIO]:
    if path == "-":
        return lambda: sys.stdin
    if _CSV_ADDRESS.match(path):
        return lambda: _fetch(path)
    return lambda: open(path, encoding="utf-8", newline="")


def _fetch(address: str) -> TextIO:
    import requests

    response = requests.get(address, timeout=TIMEOUT)
    if response.status_code != 200:
        raise requests.exceptions.InvalidURL(f"{address} answered {response.status_code}, not with a file")
    return io.StringIO(response.text)


def _state(row: list[str]) -> CompilerEnvState:
    benchmark, reward, walltime, commandline = row
    return CompilerEnvState(
        benchmark=benchmark,
        reward=None if reward == "" else float(reward),
        walltime=0 if walltime == "" else float(walltime),
        commandline=commandline,
    )
