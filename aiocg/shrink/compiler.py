"""The compiler of a build by the lock file: sources become bitcode, and what the lock file has is linked from that.

It is a program, `python -I -S compiler.py COMPILER NAME …`, started by commands on PATH, hundreds of times in a build.
So nothing but the standard library is imported, and of that little.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

VARIABLE = "AIOCG_SHRINK_PLAN"
"""The environment variable with what is to be done, a JSON object as `aiocg.shrink.locked` makes it."""

_C = (".c", ".i")
_CPLUSPLUS = (".cc", ".cp", ".cpp", ".cxx", ".c++", ".C", ".CC", ".CPP", ".CXX", ".ii")
_OTHER_MODES = ("-E", "-S", "-M", "-MM", "-fsyntax-only", "-x", "-", "--version", "-r")
_OTHERS = (
    "-fsanitize",
    "-fprofile",
    "-fcoverage",
    "--coverage",
    "-pg",
    "-finstrument",
    "-fxray",
    "-print",
    "-dump",
)
_PROBES = ("CMakeFiles/", "CMakeTmp/", "meson-private/")
_RECORDING = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "llvm", "recording.py")
_BITCODE = b"BC\xc0\xde"


def main() -> NoReturn:
    """Do what a compiler's command line asks for."""
    own, name, *words = sys.argv[1:]
    plan = json.loads(os.environ.get(VARIABLE, "null"))
    if plan is None:  # CMake remembers us, whatever it is called for
        os.execv(sys.executable, [sys.executable, "-I", "-S", _RECORDING, *sys.argv[1:]])
    if name == "zig" or any(word in _OTHER_MODES or word.startswith(_OTHERS) for word in words):
        os.execv(own, [own, *words])
    sources = [word for word in words if word.endswith((*_C, *_CPLUSPLUS)) and not word.startswith("-")]
    cplusplus = "++" in name or any(word.endswith(_CPLUSPLUS) for word in sources)
    clang = plan["c++" if cplusplus else "c"]
    if "-c" in words:
        if len(sources) == 1 and not _is_probe(sources[0]):
            _compile(clang, sources[0], words, plan)
    elif _output(words) in plan["images"]:
        os.execv(plan["link"][0], [*plan["link"], name, *words])
    elif any(_is_bitcode(word) for word in words):
        os.execv(clang[0], [*clang, *plan["lto"], *words])
    os.execv(own, [own, *words])


def _compile(clang: Sequence[str], source: str, words: Sequence[str], plan: dict[str, list[str]]) -> None:
    """Compile a source to bitcode and exit; return if clang does not."""
    known = [word for word in words if word not in plan["left_out"]]
    named = any(word.startswith("-o") for word in words)
    output = [] if named else ["-o", f"{os.path.splitext(os.path.basename(source))[0]}.o"]
    lenient = plan["lenient"] if source.endswith(_C) else []
    line = [*clang, *known, *plan["bitcode"], *lenient, *output]
    silent = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(line[0], line, os.environ, file_actions=silent)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        sys.exit(0)


def _is_probe(source: str) -> bool:
    """Say whether a source is a build system's test of the compiler."""
    return os.path.basename(source).startswith(("conftest.", "ztest")) or any(one in source for one in _PROBES)


def _output(words: Sequence[str]) -> str:
    """Return the absolute path of what a link writes."""
    name = "a.out"
    for before, word in zip(("", *words), words, strict=False):
        if before == "-o":
            name = word
        elif word.startswith("-o") and len(word) > 2:
            name = word[2:]
    return os.path.abspath(name)


def _is_bitcode(word: str) -> bool:
    if word.startswith("-") or not os.path.isfile(word):
        return False
    with open(word, "rb") as file:
        return file.read(4) == _BITCODE


if __name__ == "__main__":
    main()
