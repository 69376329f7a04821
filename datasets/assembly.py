"""Files that inline assembly includes, by absolute paths: code is generated elsewhere than sources are compiled."""

import functools
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiocg.datasets.dependency import INCLUDED, include_folders
from aiocg.datasets.process import run_bounded
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain, loader_environment

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
    folders = [os.path.abspath(os.path.join(directory, folder)) for folder in include_folders(flags)]
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
    folders = [os.path.abspath(os.path.join(directory, folder)) for folder in ("", *include_folders(flags))]

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
