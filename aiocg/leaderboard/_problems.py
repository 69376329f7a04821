"""Problems of a submission, and reading files of people who are not trusted."""

import enum
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from aiocg.errors import AiocgError

LONGEST = 300  # characters of what a submission may make us repeat


class Kind(enum.StrEnum):
    """Classes of problems, the gravest first; each has an exit status of its own."""

    FORMAT = "format"
    TRACK = "track"
    COMPLETENESS = "completeness"
    BUDGET = "budget"
    LEAK = "leak"
    REPLAY = "replay"
    REWARD = "reward"
    BEHAVIOUR = "behaviour"
    UNAVAILABLE = "unavailable"
    UNPROVEN = "unproven"

    @property
    def exit_status(self) -> int:
        """The exit status of `aiocg leaderboard check`: 10 for the first class, 19 for the last."""
        return 10 + list(Kind).index(self)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    Attributes:
        kind: its class.
        detail: what was found, and what was expected.
        benchmark: the program that it concerns; empty if it is none.
        line: of `results.csv`, 0 where it is no particular one.
    """

    kind: Kind
    detail: str
    benchmark: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        for field in ("detail", "benchmark"):
            text = getattr(self, field)
            plain = "".join(one if one.isprintable() else "?" for one in text[:LONGEST])  # not for a terminal to obey
            msgspec.structs.force_setattr(self, field, plain if len(text) <= LONGEST else f"{plain}...")

    def __str__(self) -> str:
        place = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.benchmark) if part)
        return f"{self.kind}: {place}{': ' if place else ''}{self.detail}"


class Refused(AiocgError):
    """A submission or track that cannot be read any further.

    Attributes:
        problem: why.
    """

    def __init__(self, kind: Kind, detail: str, line: int = 0) -> None:
        self.problem = Problem(kind=kind, detail=detail, line=line)
        super().__init__(str(self.problem))


MOST_FILES = 1_000
MOST_BYTES = 256 << 20  # of a file


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder and of those in it, relative to it and in order.

    Raises:
        Refused: when there is a link, a socket or the like, too much, or no folder.
    """
    found: list[Path] = []
    waiting = [folder]
    if folder.is_symlink() or not folder.is_dir():
        raise Refused(Kind.FORMAT, f"{folder} is no folder")
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                name = Path(entry.path).relative_to(folder)
                mode = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(mode.st_mode):
                    waiting.append(Path(entry.path))
                elif not stat.S_ISREG(mode.st_mode):
                    what = "a symbolic link" if entry.is_symlink() else "no regular file"
                    raise Refused(Kind.FORMAT, f"{name} is {what}")
                elif mode.st_size > MOST_BYTES:
                    raise Refused(Kind.FORMAT, f"{name} has {mode.st_size >> 20} MiB, more than {MOST_BYTES >> 20}")
                found.append(name)
                if len(found) > MOST_FILES:
                    raise Refused(Kind.FORMAT, f"there are more than {MOST_FILES} files")
    return sorted(name for name in found if not (folder / name).is_dir())


def _open_file(path: Path) -> io.BufferedReader:
    """Open a regular file for reading.

    Raises:
        Refused: when it is none, or cannot be read.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Refused(Kind.FORMAT, f"cannot read {path.name}: {error.strerror}") from None
    file = os.fdopen(number, "rb")
    mode = os.fstat(number)
    if stat.S_ISREG(mode.st_mode) and mode.st_size <= MOST_BYTES:
        return file
    file.close()
    raise Refused(Kind.FORMAT, f"{path.name} is no regular file of at most {MOST_BYTES >> 20} MiB")


def read_text(path: Path, most: int) -> str:
    """Return the content of a small file.

    Raises:
        Refused: when it has more than so many bytes, or is no text.
    """
    with _open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise Refused(Kind.FORMAT, f"{path.name} has more than {most >> 10} KiB")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Refused(Kind.FORMAT, f"{path.name} is no text in UTF-8: {error.reason}") from None


def lines_of(path: Path, longest: int) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a file, one at a time.

    Raises:
        Refused: when one has more than so many bytes, or is no text.
    """
    with _open_file(path) as file:
        number = 0
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest:
                raise Refused(Kind.FORMAT, f"the row is longer than {longest >> 10} KiB", number)
            try:
                yield number, line.decode().rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise Refused(Kind.FORMAT, f"this is no text in UTF-8: {error.reason}", number) from None


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal, whatever its size.

    Raises:
        Refused: when it cannot be read.
    """
    with _open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
