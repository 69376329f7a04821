"""Records the compile and link commands of a build.

    AIOCG_CC_RECORD=build.jsonl make CC="aiocg cc" CXX="aiocg c++"

Each start of a compiler adds a line to the file, a JSON object with `arguments` (the compiler and its options, response
files expanded, as builds remove them) and `directory`. Then clang alone does what is asked, without any search.

It is also a program, `python -I -S recording.py COMPILER NAME …`, which the commands that `recording_commands` makes
start. For their sake nothing but the standard library is imported, and of that little.

With AIOCG_CC_RECORD_FILES set to 1 as well, a compiler is run to its end, and the line also has all that is needed to
run it again: `files`, the SHA-256 of each file that the words name, inputs and outputs, by name; `compiler`, the words
that start it in place of the first argument; `environment`, its variables. What fails is not recorded then. Linkers
that a build starts itself, and tools that read objects, are. With `all` instead of 1, so are archivers, and links that
fail, with their `status`.
"""

import errno
import fcntl
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NoReturn

VARIABLE = "AIOCG_CC_RECORD"
FILES_VARIABLE = "AIOCG_CC_RECORD_FILES"

_WITHIN_VARIABLE = "AIOCG_CC_WITHIN"  # the compiler that is running, for those that start the next one of their name

_USUAL = {"cc": ("cc", "gcc", "clang"), "c++": ("c++", "g++", "clang++")}
_COMPILER = r"(?:[\w.]+-)*(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+|c89|c99|tcc)(?:-\d[\d.]*)?"


ALL = "all"  # the value of FILES_VARIABLE with which archivers and failed links are recorded, too
_TOOLS = ("nm", "size", "strings", "objdump", "readelf", "objcopy", "strip")


def is_driver(word: str) -> bool:
    """Say whether the first word of a command is the name or path of a C or C++ compiler."""
    import re

    return re.fullmatch(_COMPILER, os.path.basename(word)) is not None


def is_linker(word: str) -> bool:
    """Say whether the first word of a command is the name or path of a linker, which compilers start, too."""
    name, _, kind = os.path.basename(word).partition(".")
    return name.rpartition("-")[2] == "ld" and kind in ("", "bfd", "gold", "lld")


def is_tool(word: str) -> bool:
    """Say whether the first word of a command is the name or path of a tool that reads objects."""
    return os.path.basename(word).rpartition("-")[2] in _TOOLS


def is_archiver(word: str) -> bool:
    """Say whether the first word of a command is the name or path of a program that makes archives."""
    import re

    return re.fullmatch(r"(?:[\w.]+-)*(?:ar|ranlib)(?:-\d[\d.]*)?", os.path.basename(word)) is not None


def record(
    path: str,
    words: Sequence[str],
    *,
    compiler: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    status: int = 0,
) -> None:
    """Add a line about a compiler's start.

    Args:
        path: the file; it is made if need be. Several processes may write to it at once.
        compiler: the words that start it again in place of the first one.
        environment: its variables; with them the files that the words name are hashed, too.
        status: with which it failed.

    Raises:
        OSError: when it cannot be written, or is a relative path, which would be another file in each folder.
    """
    if not os.path.isabs(path):
        raise OSError(errno.EINVAL, "it must be an absolute path, such as $PWD/build.jsonl", path)
    arguments = [words[0], *_expanded(words[1:])]
    more: dict[str, object] = {}
    if environment is not None:
        own = {name: value for name, value in environment.items() if name not in (VARIABLE, FILES_VARIABLE)}
        more = {"files": _hashes(arguments[1:]), "compiler": list(compiler), "environment": own}
        more |= {"status": status} if status else {}
    line = json.dumps({"arguments": arguments, "directory": os.getcwd(), **more}).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        while line:
            line = line[os.write(descriptor, line) :]
    finally:
        os.close(descriptor)


def run_recorded(path: str, words: Sequence[str], command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a compiler, record it with its files if it succeeds, and return its exit status.

    Args:
        path: as for `record`.
        words: what is recorded.
        command: what is run.
        environment: its variables.

    Raises:
        OSError: when it cannot be started, or the record cannot be written.
    """
    child = os.posix_spawn(command[0], list(command), environment)
    while True:
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            break
        except KeyboardInterrupt:  # the compiler gets it, too
            continue
    failed_link = status > 0 and os.environ.get(FILES_VARIABLE) == ALL and "-c" not in words
    if not status or failed_link:
        given = command[: len(command) - len(words) + 1]
        record(path, words, compiler=given, environment=environment, status=status)
    return status if status >= 0 else 128 - status


def _replace_process(path: str, compiler: str, words: Sequence[str]) -> NoReturn:
    """Record a start, and let the compiler take the place of this process, called by the first of the words."""
    # by its path: some look for their parts beside what their name leads to on PATH, which is us
    environment = {name: value for name, value in os.environ.items() if name not in (VARIABLE, FILES_VARIABLE)}
    environment[_WITHIN_VARIABLE] = compiler
    try:
        if os.environ.get(FILES_VARIABLE):
            sys.exit(run_recorded(path, words, [compiler, *words[1:]], environment))
        record(path, words)
    except OSError as error:
        print(f"aiocg: error: {VARIABLE} is {path!r}, which cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)
    try:
        os.execve(compiler, [compiler, *words[1:]], environment)  # a compiler that starts another is recorded once
    except OSError as error:
        print(f"aiocg: error: {compiler} cannot be started: {error.strerror}", file=sys.stderr)
        sys.exit(127)


def recording_commands(folder: str, search_path: str, program: str = "", *, archivers: bool = False) -> None:
    """Fill a folder with commands that record, and stand for the compilers of a search path.

    A folder that is put before the search path makes any build that calls compilers by name record itself. Where the
    machine has no `cc` or `c++`, or one that compiles nothing, the clang that compiles benchmarks takes its place.

    Args:
        folder: an empty folder.
        search_path: such as the value of PATH.
        program: what the commands start, with a compiler's path and name before its words; this file if "".
        archivers: whether some stand for archivers, too.
    """
    found = compilers(search_path)
    found |= _commands(search_path, lambda name: is_tool(name) or (archivers and is_archiver(name)))
    for instead, names in _USUAL.items():
        language = "c" if instead == "cc" else "c++"
        for name in names:
            if (path := found.pop(name, None)) and _compiles(path, language):
                found[name] = path
            else:
                clang = [sys.executable, "-P", "-m", "aiocg.cli", instead]
                _write_command(folder, name, ["env", "AIOCG_CC_SEARCH=none", *clang])
    for name, path in found.items():
        _write_command(folder, name, [sys.executable, "-I", "-S", os.path.abspath(program or __file__), path, name])


def compilers(search_path: str) -> dict[str, str]:
    """Return the paths of the C and C++ compilers and of the linkers by their names."""
    return _commands(search_path, lambda name: is_driver(name) or is_linker(name) or name == "zig")


def _commands(search_path: str, known: Callable[[str], bool]) -> dict[str, str]:
    found: dict[str, str] = {}
    for place in search_path.split(os.pathsep):
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        for name in names:
            path = os.path.join(os.path.abspath(place or "."), name)
            if known(name) and os.access(path, os.X_OK) and os.path.isfile(path):
                found.setdefault(name, path)
    return found


def _compiles(path: str, language: str) -> bool:
    """Say whether a compiler compiles: some machines have only the part of it that links."""
    import subprocess

    command = [path, "-x", language, "-c", os.devnull, "-o", os.devnull]
    null = subprocess.DEVNULL
    try:
        return subprocess.run(command, timeout=60, stdin=null, stdout=null, stderr=null).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _write_command(folder: str, name: str, words: Sequence[str]) -> None:
    new = os.path.join(folder, f".{name}-{os.getpid()}")
    with open(new, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    os.chmod(new, 0o755)
    os.replace(new, os.path.join(folder, name))  # another build may use the folder


def _expanded(words: Sequence[str], depth: int = 0) -> Iterator[str]:
    """Replace `@file` by the words in the file; what cannot be read is the compiler's to complain about."""
    for word in words:
        text = None
        if word.startswith("@") and depth < 10:
            try:
                with open(word[1:], encoding="utf-8", errors="surrogateescape") as file:
                    text = file.read()
            except OSError:
                pass
        if text is None:
            yield word
        else:
            yield from _expanded(shlex.split(text), depth + 1)


def _hashes(words: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of the files that words name, and of those that compilers write if no name is given."""
    import hashlib

    names = {"a.out": None}
    for word in words:
        names[word.removeprefix("-o") if word != "-o" else ""] = None
        stem, suffix = os.path.splitext(os.path.basename(word))
        if suffix and not word.startswith("-"):
            names[f"{stem}.o"] = None
    found = {}
    for name in names:
        if os.path.isfile(name):
            with open(name, "rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _main() -> NoReturn:
    compiler, *words = sys.argv[1:]
    path = os.environ.get(VARIABLE, "")
    if words[0] == "zig":
        counts = words[1:2] in (["cc"], ["c++"])
    elif is_archiver(words[0]):
        counts = os.environ.get(FILES_VARIABLE) == ALL
    else:
        counts = not (is_linker(words[0]) or is_tool(words[0])) or bool(os.environ.get(FILES_VARIABLE))
    if path and counts:
        _replace_process(path, compiler, words)
    if os.environ.get(_WITHIN_VARIABLE) == compiler:  # ccache and the like, called by a compiler's name
        folders = os.environ.get("PATH", "").split(os.pathsep)
        behind = folders[folders.index(os.path.dirname(compiler)) + 1 :] if os.path.dirname(compiler) in folders else []
        compiler = compilers(os.pathsep.join(behind)).get(words[0], compiler)
    os.execv(compiler, [compiler, *words[1:]])


if __name__ == "__main__":
    _main()
