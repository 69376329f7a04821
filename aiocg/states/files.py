"""Files of states: tables (CSV) and lists of JSON objects, written and read one state at a time.

::

    with CompilerEnvStateWriter(open("results.csv", "w")) as writer:
        writer.write_state(env.state)

    with CompilerEnvStateReader(open("results.csv")) as reader:
        for state in reader:
            print(state)

Files of CompilerGym, with its four columns, are read as well; their states are of the kind `LegacyState`.
"""

import bz2
import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import re
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, Self, cast

import msgspec

from aiocg.datasets.cache import is_offline, without_password
from aiocg.datasets.download import Failure, receive
from aiocg.datasets.errors import DownloadError
from aiocg.states.state import FIELD_LIMIT, CompilerEnvState, InvalidState, LegacyState

__all__ = [
    "SIZE_LIMIT",
    "TOTAL_TIMEOUT",
    "CompilerEnvStateReader",
    "CompilerEnvStateWriter",
    "SourceLike",
    "State",
    "find_state",
    "open_source",
    "read_paths",
]

SourceLike = str | os.PathLike[str]
"""A path, `-` for standard input, or an address that begins with `http://` or `https://`."""

TOTAL_TIMEOUT = 600.0  # seconds for a whole file
SIZE_LIMIT = 1 << 30  # bytes of a whole file


def _is_address(source: SourceLike) -> bool:
    """Is this an address on the web?"""
    return re.match(r"https?://", os.fspath(source), re.IGNORECASE) is not None


@contextlib.contextmanager
def open_source(source: SourceLike) -> Iterator[tuple[IO[Any], str]]:
    """Open a file of states, and yield it with the name that errors call it by.

    Args:
        source: where it is. What gzip or bzip2 have compressed is known by its first bytes.

    Raises:
        OSError: when a file cannot be read.
        DownloadError: when an address cannot be fetched.
    """
    path = os.fspath(source)
    if path == "-":
        file = getattr(sys.stdin, "buffer", sys.stdin)
        yield _unpacked(file), "standard input"
        return
    if _is_address(path):
        with _fetched(path) as file:
            yield _unpacked(file), without_password(path)
        return
    with open(path, "rb") as file:
        yield _unpacked(file), path


def _unpacked(file: IO[Any]) -> IO[Any]:
    beginning = file.peek(3)[:3] if hasattr(file, "peek") else b""
    if beginning[:2] == b"\x1f\x8b":
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if beginning == b"BZh":
        return cast(IO[bytes], bz2.BZ2File(file))
    return file


@contextlib.contextmanager
def _fetched(url: str) -> Iterator[IO[bytes]]:
    """Fetch a file into a temporary one without a name, which is gone whatever happens."""
    shown, end = without_password(url), time.monotonic() + TOTAL_TIMEOUT
    if is_offline():
        raise DownloadError(shown, "AIOCG_OFFLINE is set; unset it, or fetch the file yourself and give its path")
    with tempfile.TemporaryFile(prefix="aiocg-states-") as file:
        try:
            for part in receive(url, 0):
                if isinstance(part, bytes):
                    file.write(part)
                if file.tell() > SIZE_LIMIT:
                    raise Failure(f"it is larger than {SIZE_LIMIT >> 20} MiB")
                if time.monotonic() > end:
                    raise Failure(f"it did not arrive within {TOTAL_TIMEOUT:.0f} seconds")
        except Failure as failure:
            raise DownloadError(shown, failure.reason) from failure
        file.seek(0)
        yield file


State = CompilerEnvState | LegacyState
"""A state of either kind."""

Invalid = Callable[[InvalidState], object]
"""Called with what is wrong with a row, in place of raising it."""

_KINDS: tuple[type[State], ...] = (CompilerEnvState, LegacyState)
_HEADERS = frozenset(("benchmark", "actions")), frozenset(("benchmark", "commandline"))
_LINE_LIMIT = FIELD_LIMIT


class _File:
    """A file that is closed at the end of a block."""

    _file: IO[Any]

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class CompilerEnvStateWriter(_File):
    """Writes states as CSV: those of aiocg with six columns, those of CompilerGym with its four.

    Args:
        file: to write to, of text or of bytes; leaving the `with` block closes it. A file that others will read is
            opened with `newline=""` and `encoding="utf-8"`.
        header: whether the columns are named before the first state.
    """

    def __init__(self, file: IO[str] | IO[bytes], header: bool = True) -> None:
        self._file: IO[Any] = file
        self._header = header
        self._kind: type[State] | None = None
        self._binary = isinstance(file, (io.RawIOBase, io.BufferedIOBase)) or "b" in str(getattr(file, "mode", ""))

    def write_state(self, state: State, flush: bool = False) -> None:
        """Write a state.

        Args:
            state: of the same kind as all others in the file.
            flush: write it to the file at once, so that a reader sees it, and a crash does not lose it.

        Raises:
            TypeError: when it is of another kind than the first one, or no state.
        """
        if not isinstance(state, _KINDS):
            raise TypeError(f"a CompilerEnvState or a LegacyState is written, not {type(state).__name__}: {state!r}")
        if self._kind is None:
            self._kind = type(state)
            if self._header:
                self._write(self._kind.csv_header())
        if type(state) is not self._kind:
            raise TypeError(f"a file has one kind of states, and this one began with {self._kind.__name__}")
        self._write(state.to_csv())
        if flush:
            self._file.flush()

    def _write(self, row: str) -> None:
        line = f"{row}\n"
        self._file.write(line.encode() if self._binary else line)


class CompilerEnvStateReader(_File):
    """Reads states one after the other, from CSV or from JSON, as they come.

    CSV may have a header, in capitals or not, with the columns in any order, and other columns among them, which are
    left out. Without a header it has the six columns of aiocg, or the four of CompilerGym, in their order. JSON is
    one object after the other, each on its line or, like a single state, spread over several; an object that has the
    state under the key `state`, as the results of validations have, will do.

    Args:
        file: to read, of text or of bytes; leaving the `with` block closes it.
        name: what errors call the file; by default its own name.
        invalid: called with what is wrong with a row, which is then left out. Without it that is raised.

    Attributes:
        line: the line on which the state begins that came last, from 1.
    """

    def __init__(self, file: IO[str] | IO[bytes], *, name: str | None = None, invalid: Invalid | None = None) -> None:
        self.line = 0
        self._file: IO[Any] = file
        own = getattr(file, "name", "")
        self._name = name if name is not None else own if isinstance(own, str) else ""
        self._invalid = invalid

    def __iter__(self) -> Iterator[State]:
        """Read on.

        Raises:
            InvalidState: for a row or an object that is no state, with the file and the line.
        """
        lines = self._lines()
        blank = 0
        for first in lines:
            if first.strip():
                break
            blank += 1
        else:
            return
        again = itertools.chain(itertools.repeat("\n", blank), [first], lines)
        yield from self._objects(again) if first.lstrip().startswith("{") else self._rows(again, first)

    def _lines(self) -> Iterator[str]:
        """Read the lines as text; whatever may be wrong with them is said with their number."""
        for number in itertools.count(1):
            try:
                line = self._file.readline(_LINE_LIMIT)
                text: str = line.decode() if isinstance(line, bytes) else line
            except UnicodeDecodeError as error:
                raise self._error(f"this is not text in UTF-8: {error.reason}", number) from error
            except (EOFError, zlib.error, OSError) as error:  # of a damaged archive, too
                raise self._error(f"cannot be read any further: {error}", number) from error
            if not text:
                return
            if len(line) >= _LINE_LIMIT:
                raise self._error(f"the line is longer than {_LINE_LIMIT >> 20} MiB", number)
            yield text.removeprefix("\ufeff") if number == 1 else text

    def _error(self, reason: str, line: int) -> InvalidState:
        return InvalidState(reason, self._name, line)

    def _attempt(self, read: Callable[[], State], line: int) -> State | None:
        """Read one state; return None for one that is none, where that is only told."""
        self.line = line
        try:
            return read()
        except InvalidState as invalid:
            error = self._error(invalid.reason, line)
            if self._invalid is None:
                raise error from invalid
            self._invalid(error)
            return None

    # -------------------------------------------------------------------------------------------- tables

    def _rows(self, lines: Iterable[str], first: str) -> Iterator[State]:
        csv.field_size_limit(max(csv.field_size_limit(), FIELD_LIMIT))
        reader = csv.reader(lines)
        layout: _Layout | None = None
        begin = 1
        try:
            for row in reader:
                line, begin = begin, reader.line_num + 1
                if not row or (len(row) == 1 and not row[0].strip()):
                    continue
                if layout is None:
                    layout = self._layout(row, line, first)
                    if layout.header:
                        continue
                state = self._attempt(lambda layout=layout, row=row: layout.read(row), line)  # type: ignore[misc]
                if state is not None:
                    yield state
        except csv.Error as error:
            raise self._error(f"this is not CSV: {error}", begin) from error

    def _layout(self, row: Sequence[str], line: int, first: str) -> "_Layout":
        try:
            return _Layout(row)
        except InvalidState as error:
            hint = "; this looks like a web page: give the address of the file itself" if first[:1] == "<" else ""
            raise self._error(f"{error.reason}{hint}", line) from error

    # ------------------------------------------------------------------------------------------- objects

    def _objects(self, lines: Iterator[str]) -> Iterator[State]:
        start, heads = [], []
        for line in lines:
            start.append(line)
            heads += [line.lstrip()[0]] if line.strip() else []
            if len(heads) == 2:
                break
        again = itertools.chain(start, lines)
        if heads[1:] not in ([], ["{"]):
            yield from self._spread_objects("".join(again))
            return
        for number, line in enumerate(again, 1):
            if line.strip():
                state = self._attempt(lambda line=line: _of_object(_decoded(line)), number)  # type: ignore[misc]
                if state is not None:
                    yield state

    def _spread_objects(self, text: str) -> Iterator[State]:
        """Read objects that are spread over several lines each."""
        decoder = json.JSONDecoder()
        position = 0
        while rest := text[position:].lstrip():
            position = len(text) - len(rest)
            line = 1 + text.count("\n", 0, position)
            try:
                found, position = decoder.raw_decode(text, position)
            except (ValueError, RecursionError) as error:
                raise self._error(f"this is not a state as JSON: {error}", line) from error
            state = self._attempt(lambda found=found: _of_object(found), line)  # type: ignore[misc]
            if state is not None:
                yield state

    # --------------------------------------------------------------------------------------------- files

    @staticmethod
    def read_paths(paths: Iterable[SourceLike], *, invalid: Invalid | None = None) -> Iterator[State]:
        """Read the states of several files; see the function `read_paths`."""
        return read_paths(paths, invalid=invalid)


def read_paths(paths: Iterable[SourceLike], *, invalid: Invalid | None = None) -> Iterator[State]:
    """Read the states of several files, one after the other.

    Args:
        paths: of files, which may be compressed with gzip or bzip2; `-` for standard input; or addresses that begin
            with `http://` or `https://`, which are fetched unless `AIOCG_OFFLINE` is set.
        invalid: called with what is wrong with a row, which is then left out. Without it that is raised.

    Raises:
        InvalidState: for what is no state, with the file and the line.
        OSError: when a file cannot be read.
        DownloadError: when an address cannot be fetched.
    """
    for path in paths:
        with open_source(path) as (file, name):
            yield from CompilerEnvStateReader(file, name=name, invalid=invalid)


def find_state(place: SourceLike) -> State:
    """Return the one state of a file, or the state on one of its lines.

    Args:
        place: a file as for `read_paths`, with ":" and the number of the line behind it, unless it has only one state.

    Raises:
        InvalidState: when there is no such state, several, or what is there is no state.
        OSError, DownloadError: as `read_paths`.
    """
    path, line = _place(os.fspath(place))
    with open_source(path) as (file, name):
        reader = CompilerEnvStateReader(file, name=name, invalid=None if line == 0 else lambda error: _hit(error, line))
        lines: list[int] = []
        for state in reader:
            if line == reader.line:
                return state
            lines.append(reader.line)
            only = state
    if not lines:
        raise InvalidState("there are no states", name)
    if line:
        raise InvalidState(f"no state begins on line {line}; they are on lines {lines[0]} to {lines[-1]}", name)
    if len(lines) > 1:
        example = f"{path}:{lines[0]}"
        raise InvalidState(f"there are {len(lines)} states: say which one by its line, as in {example}", name)
    return only


def _place(place: str) -> tuple[str, int]:
    """Return the path of a file, and the number behind it, 0 without."""
    path, _, line = place.rpartition(":")
    if not line.isascii() or not line.isdigit() or not path or os.path.exists(place):
        return place, 0
    return (place, 0) if _is_address(path) and path.count("/") < 3 else (path, int(line))


def _hit(error: InvalidState, line: int) -> None:
    """Raise what is wrong with the state that was asked for; what is wrong with others does not matter."""
    if error.line == line:
        raise error


class _Layout:
    """Which columns a table has, found out from its first row.

    Attributes:
        header: whether that row names them.

    Raises:
        InvalidState: when it can be neither a header nor a state.
    """

    def __init__(self, row: Sequence[str]) -> None:
        names = [cell.strip().lower() for cell in row]
        self.header = any(header <= set(names) for header in _HEADERS)
        if self.header:
            self._kind: type[State] = CompilerEnvState if "actions" in names else LegacyState
            self._check(names)
            self._columns = names
            return
        self._kind = next((kind for kind in _KINDS if len(kind.columns) == len(row)), LegacyState)
        self._columns = list(self._kind.columns)
        if len(self._columns) != len(row):
            kinds = " or ".join(kind.csv_header() for kind in _KINDS)
            raise InvalidState(f"expected the columns {kinds}, or a header that names them, not {_count(len(row))}")

    def _check(self, names: Sequence[str]) -> None:
        """Raise InvalidState for a header that is likely to be a mistake."""
        twice = sorted({name for name in names if names.count(name) > 1 and name in self._kind.columns})
        if twice:
            raise InvalidState(f"the header names the column {twice[0]} twice")
        missing = [column for column in self._kind.columns if column not in names]
        unknown = [name for name in names if name and name not in self._kind.columns]
        needed = [column for column in missing if column in self._kind.required]
        if needed or (missing and unknown):
            others = f"; it has {', '.join(unknown)} instead" if unknown else ""
            raise InvalidState(f"the header lacks the column {(needed or missing)[0]}{others}")

    def read(self, row: Sequence[str]) -> State:
        """Return the state of a row.

        Raises:
            InvalidState: when it is none.
        """
        if len(row) != len(self._columns):
            raise InvalidState(f"expected {_count(len(self._columns))}, found {len(row)}")
        return self._kind.from_row(dict(zip(self._columns, row, strict=True)))


def _count(columns: int) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"


def _decoded(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidState(f"this is not a state as JSON: {error}") from error


def _of_object(found: Any) -> State:
    """Return the state that a JSON object says, of whichever kind.

    Raises:
        InvalidState: when it is none.
    """
    if isinstance(found, dict) and isinstance(found.get("state"), dict):
        translation = found.get("translation")
        found = found["state"]
        if isinstance(translation, dict) and "commandline" in translation:  # as it was before it was translated
            found = {**found, "commandline": translation["commandline"]}
            found.pop("actions", None)
    legacy = isinstance(found, dict) and "commandline" in found and "actions" not in found
    kind: type[State] = LegacyState if legacy else CompilerEnvState
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise InvalidState(f"this is not a state as JSON: {error}") from error
