"""The files that a compilation read, assembly included: a cached result is used only while they are unchanged."""

import functools
import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aiocg.datasets.cache import cache_directory
from aiocg.datasets.process import run_bounded
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain, loader_environment

INCLUDED = re.compile(
    rb"""(?:include|include_next|import|embed|__has_include_next)\s*\(?\s*(?:"([^"\n]+)"|<([^>\n]+)>)"""
)
_COMPUTED = re.compile(
    rb"""^[ \t]*\#[
    \t]*(?:include|include_next|import|embed)\b(?!\s*["<])|__has_(?:include|embed)\w*\s*\(\s*[^\s"<]""",
    re.MULTILINE,
)
_FOLDER = re.compile(r"-(?:I|iquote|isystem|idirafter)(.*)")
_TIMESTAMP_GRAIN = 20_000_000  # nanoseconds: file systems stamp files with a clock this coarse


class Dependencies:
    """The files that went into a result, and those whose appearance would change it.

    A header that appears earlier in the search order changes the result without changing any file that was read. So
    for every name that the user's own files include, the places where it was missing are recorded too.

    Attributes:
        files: SHA-256 by absolute path.
        absent: absolute paths that must not exist.
    """

    def __init__(self, files: dict[str, str], absent: Iterable[str] = ()) -> None:
        self.files = files
        self.absent = tuple(absent)

    @classmethod
    def collect(
        cls, makefile_rule: str, directory: str, flags: Iterable[str], started: int, exclude: str = ""
    ) -> "Dependencies | None":
        """Hash what a compilation read; None when that is not certain.

        Args:
            makefile_rule: what clang wrote for `-MD`.
            directory: where it ran, free of symbolic links.
            flags: its flags, whose include directories count as the user's own, but for the headers that we fetch.
            started: when it started, in nanoseconds since the epoch; a file touched since then may not be the
                one read.
            exclude: a file that is part of the key already.
        """
        fetched = str(cache_directory() / "headers") + os.sep
        folders = [folder for folder in _include_folders(flags) if not folder.startswith(fetched)]
        own = [directory, *(os.path.join(directory, folder) for folder in folders)]
        roots = tuple(os.path.realpath(folder) + os.sep for folder in own)
        files: dict[str, str] = {}
        absent: set[str] = set()
        for name in prerequisites(makefile_rule):
            path = os.path.join(directory, name)
            try:
                status = os.stat(path)
                with open(path, "rb") as file:
                    text = file.read()
            except OSError:
                return None
            if path != exclude:
                if max(status.st_mtime_ns, status.st_ctime_ns) > started - _TIMESTAMP_GRAIN:
                    return None
                files[path] = hashlib.sha256(text).hexdigest()
            if os.path.realpath(path).startswith(roots):
                if _COMPUTED.search(text):
                    return None
                absent.update(_candidates(text, [os.path.dirname(path), *own]))
        return cls(files, sorted(path for path in absent if not os.path.exists(path)))

    def hold(self) -> bool:
        """Return whether all files are unchanged."""
        return not any(map(os.path.lexists, self.absent)) and all(
            _digest(path) == digest for path, digest in self.files.items()
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `from_json`."""
        return {"files": self.files, "absent": self.absent}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Dependencies":
        """Read what `to_json` returned."""
        return cls(value["files"], value["absent"])


def _candidates(text: bytes, folders: list[str]) -> Iterator[str]:
    for quoted, angled in INCLUDED.findall(text):
        name = os.fsdecode(quoted or angled)
        for folder in folders:
            yield os.path.join(folder, name)


def _include_folders(flags: Iterable[str]) -> list[str]:
    """Return the folders that `-I` and the like name, joined to them or behind them."""
    folders, words = [], iter(flags)
    for word in words:
        if found := _FOLDER.fullmatch(word):
            folders.append(found[1] or next(words, ""))
    return folders


def prerequisites(rule: str) -> list[str]:
    """Read the names after the colon of a rule that clang wrote, undoing its escapes."""
    body = rule.replace("\\\n", " ").partition(": ")[2].split("\n", 1)[0]
    names = re.findall(r"(?:\\[ #]|[^ \t])+", body)
    return [re.sub(r"\\([ #])", r"\1", name).replace("$$", "$") for name in names]


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


_SIGN = re.compile(rb"\.(?:incbin|include)\b|INCBIN", re.IGNORECASE)  # of sources; the last one is a well-known macro
_FILE = re.compile(rb"(\.(?:incbin|include)(?:[ \t]|\\09)+\\22)([^/\"\\][^\"\\]*)(?=\\22)", re.IGNORECASE)  # in IR
_SAME = ("-O1", "-Xclang", "-disable-llvm-passes", "-Wno-override-module", "-emit-llvm", "-x", "ir")


def includes_files(source: Path, directory: str | os.PathLike[str], flags: Iterable[str]) -> bool:
    """Return whether the inline assembly of a C or C++ source, or of its own headers, may include files.

    Args:
        source: the file; False if it cannot be read.
        directory: where it is compiled.
        flags: it is compiled with, whose folders may have headers of its own.
    """
    folders = [os.path.abspath(os.path.join(directory, folder)) for folder in _include_folders(flags)]
    waiting, seen = [os.path.abspath(source)], set[str]()
    while waiting:
        seen.add(path := waiting.pop())
        try:
            status = os.stat(path)
            found, names = _looked_at(path, status.st_mtime_ns, status.st_size)
        except OSError:
            continue
        if found:
            return True
        candidates = (
            os.path.normpath(os.path.join(at, one)) for at in (os.path.dirname(path), *folders) for one in names
        )
        waiting += {one for one in candidates if one not in seen and os.path.isfile(one)}
    return False


@functools.lru_cache(maxsize=4096)
def _looked_at(path: str, changed: int, size: int) -> tuple[bool, tuple[str, ...]]:
    """Return whether a file has assembly that may include files, and the names of what it includes itself."""
    text = Path(path).read_bytes()
    return _SIGN.search(text) is not None, tuple(os.fsdecode(one or other) for one, other in INCLUDED.findall(text))


def with_absolute_files(
    bitcode: bytes, directory: str | os.PathLike[str], flags: Iterable[str], timeout: float
) -> bytes:
    """Return a program whose assembly includes files wherever code is generated for it.

    Args:
        bitcode: the program.
        directory: where its source was compiled.
        flags: it was compiled with; files are looked for in the folders that they name, joined to `-I` and the like.
        timeout: seconds, for each of two conversions.

    Returns:
        Bitcode, the same where no file is included, or clang does not read it.
    """
    folders = [os.path.abspath(os.path.join(directory, folder)) for folder in ("", *_include_folders(flags))]

    def absolute(match: "re.Match[bytes]") -> bytes:
        for folder in folders:
            path = os.path.join(folder, os.fsdecode(match[2]))
            if os.path.isfile(path) and not set(path) & set('"\\'):
                return match[1] + os.fsencode(path)
        return match[0]

    with scratch_folder() as scratch:
        program, text = Path(scratch, "program.bc"), Path(scratch, "program.ll")
        program.write_bytes(bitcode)
        if _run(("-S", "-o", str(text), str(program)), scratch, timeout):
            return bitcode
        before = text.read_bytes()
        after = _FILE.sub(absolute, before)
        text.write_bytes(after)
        if after == before or _run(("-c", "-o", str(program), str(text)), scratch, timeout):
            return bitcode
        return program.read_bytes()


def _run(words: Sequence[str], directory: str, timeout: float) -> int:
    """Run clang on a program as it is, and return its exit status."""
    environment = {**os.environ, **loader_environment(), "LC_ALL": "C"}
    line = [*find_toolchain().command(), *_SAME, *words]
    return run_bounded(line, cwd=directory, env=environment, timeout=timeout)[0]
