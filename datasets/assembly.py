"""Files that inline assembly includes, by absolute paths: code is generated elsewhere than sources are compiled."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from aiocg.datasets.process import run_bounded
from aiocg.datasets.scratch import scratch_folder
from aiocg.datasets.toolchain import find_toolchain, loader_environment

__all__ = ["includes_files", "with_absolute_files"]

_SIGNS = (b".incbin", b".include", b"INCBIN")  # of sources; the last one is a macro of a well-known header
_FILE = re.compile(rb"(\.(?:incbin|include)(?:[ \t]|\\09)+\\22)([^/\"\\][^\"\\]*)(?=\\22)")  # in textual IR
_FOLDER = re.compile(r"-(?:I|isystem|iquote)(.+)")
_SAME = ("-O1", "-Xclang", "-disable-llvm-passes", "-Wno-override-module", "-emit-llvm", "-x", "ir")


def includes_files(source: bytes) -> bool:
    """Return whether the inline assembly of a C or C++ source may include files."""
    return any(sign in source for sign in _SIGNS)


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
    folders = [directory, *(found[1] for flag in flags if (found := _FOLDER.fullmatch(flag)))]

    def absolute(match: "re.Match[bytes]") -> bytes:
        for folder in folders:
            path = os.path.join(os.path.abspath(os.path.join(directory, folder)), os.fsdecode(match[2]))
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
