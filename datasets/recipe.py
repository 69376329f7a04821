"""Recipes for linking, running and checking a program on a worker, and the command lines that say how one is run.

A recipe is MessagePack of one map; `aiocg.workers.programs.recipe` reads it::

    version       1
    command       what links the program, in an empty folder that has, beside `files`, the program's machine code as
                  `program.o` and, if the command names it, its IR as `program.bc`; it writes the executable `program`.
                  The worker puts its own tools in the place of these words: `{clang}` and `{clang++}`, the compiler
                  driver, GCC's where that is the compiler; `{lld}`, the ELF linker; `{builtins}`, the compiler's
                  library of arithmetic, or nothing.
    files         the content of files in that folder, by name
    environment   all environment variables of the command
    runs          in order; each a map of
        name          such as "small"
        arguments     after the program's name
        stdin         the content of standard input
        files         the content of files in the otherwise empty folder in which it runs, by name
        environment   all environment variables
        exit_status   that the program must end with, or nil when it is not known
        stdout        the content of standard output, or nil when it is not known
        outputs       what it writes: the content of each file, by name, or nil when that is not known
        timeout       seconds
    measured      name of the run whose time is measured
"""

import dataclasses
import os
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from aiocg.datasets.linking import LINK_FLAGS, runtime_archive
from aiocg.datasets.toolchain import find_toolchain, link_flags

VERSION = 1
_RUNTIME = "runtime.a"
_FREESTANDING = ("{lld}", *LINK_FLAGS, "-o", "program", "program.o", _RUNTIME, "{builtins}")


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramRun:
    """One way to run a program, and what it must print and write.

    A program runs in a folder of its own, with nothing but what is said here.

    Attributes:
        arguments: the command line after the program's name.
        expected_output_path: the file that holds the expected standard output, or None when it is not known.
        exit_status: the status the program must exit with, or None when it is not known.
        stdin: the content of standard input.
        files: the content of the files it finds in its folder, by name.
        environment: its environment variables; there are no others.
        output_files: the files it writes there, by name, with their expected content, or None where that is not known.
        timeout: seconds after which it is stopped.
        output_varies: what it prints differs from one time to the next, and is not compared.
    """

    arguments: tuple[str, ...] = ()
    expected_output_path: Path | None = None
    exit_status: int | None = 0
    stdin: bytes = b""
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    output_files: Mapping[str, bytes | None] = dataclasses.field(default_factory=dict)
    timeout: float = 60.0
    output_varies: bool = False

    def expected_output(self) -> bytes | None:
        """Read the expected standard output; None when it is not known."""
        return None if self.expected_output_path is None else self.expected_output_path.read_bytes()


class LazyFiles(Mapping[str, bytes]):
    """Files by name that are read when they are asked for."""

    def __init__(self, names: Collection[str], read: Callable[[str], bytes]) -> None:
        self._names = names
        self._read = read

    def __getitem__(self, name: str) -> bytes:
        """Read a file; raise KeyError when it is none of the names."""
        if name not in self._names:
            raise KeyError(name)
        return self._read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclasses.dataclass(frozen=True, slots=True)
class BenchmarkProgram:
    """How to build, run and check a benchmark that is a whole program.

    Attributes:
        language: "c" or "c++".
        freestanding: the program stands on our own runtime and headers, not on the machine's.
        runs: the runs by name, such as "small", "medium" and "large"; a program without any cannot be run.
        command: what links it, in the words of a recipe. When empty, our runtime is linked to a freestanding
            program, and clang links any other with the machine's libraries.
        files: the content of files that the command finds in its folder, by name.
        environment: the environment variables of the command; there are no others.
        measured: the run whose time is measured if nothing else is said, the first one if empty. It should take long
            enough that starting the program does not count, and no longer.
        carried: names of the runs that every environment on the benchmark can do, None for all. The others are done by
            validation only, so that what they need is not fetched for optimising.
        sanitizers: names of the sanitizers that may watch it, None for all: some programs have faults of their own.
        libraries: words such as `-lz` or `-pthread` that clang links it with, where there is no command.
    """

    language: str
    freestanding: bool = False
    runs: Mapping[str, ProgramRun] = dataclasses.field(default_factory=dict)
    command: tuple[str, ...] = ()
    files: Mapping[str, bytes] = dataclasses.field(default_factory=dict)
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    measured: str = ""
    carried: tuple[str, ...] | None = None
    sanitizers: tuple[str, ...] | None = None
    libraries: tuple[str, ...] = ()


def encode_program(program: BenchmarkProgram) -> bytes:
    """Write the recipe of a program.

    A program without a command of its own is linked with our runtime if it is freestanding, or else by clang with the
    machine's libraries. Only the runs that the program carries are in the recipe.

    Raises:
        BenchmarkInitError: when our runtime does not compile.
        ToolchainNotFound: when there is no clang to compile it.
        OSError: when the file of an expected output cannot be read.
    """
    import msgspec  # here, for a quick start of those who only list or compile programs

    command, files = program.command, dict(program.files)
    if not command and program.freestanding:
        command, files = _FREESTANDING, files | {_RUNTIME: runtime_archive(find_toolchain())}
    elif not command:
        flags = link_flags(find_toolchain().clang, program.language)
        command = by_driver(program.language, flags, (*program.libraries, "-lm"))
    runs = {name: run for name, run in program.runs.items() if program.carried is None or name in program.carried}
    recipe = {
        "version": VERSION,
        "command": command,
        "files": files,
        "environment": dict(program.environment),
        "runs": [_run(name, run) for name, run in runs.items()],
        "measured": program.measured or next(iter(runs), ""),
    }
    return msgspec.msgpack.encode(recipe, order="sorted")


def _run(name: str, run: ProgramRun) -> Mapping[str, Any]:
    return {
        "name": name,
        "arguments": run.arguments,
        "stdin": run.stdin,
        "files": dict(run.files),
        "environment": dict(run.environment),
        "exit_status": run.exit_status,
        "stdout": run.expected_output(),
        "outputs": dict(run.output_files),
        "timeout": run.timeout,
    }


def linked_by_compiler(program: BenchmarkProgram | None) -> BenchmarkProgram | None:
    """Return a program that the compiler at hand links with the libraries that it finds, if nothing else is said."""
    if program is None or program.command or program.freestanding:
        return program
    words = (*(word for word in program.libraries if not word.startswith("-stdlib=")), "-lm")
    return dataclasses.replace(program, command=by_driver(program.language, words=words))


def by_driver(language: str, flags: tuple[str, ...] = (), words: tuple[str, ...] = ("-lm",)) -> tuple[str, ...]:
    """Return the command by which a compiler driver links a program, with words after its machine code."""
    return ("{clang++}" if language == "c++" else "{clang}", *flags, "-o", "program", "program.o", *words)


_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_SHELL, _AT_START = "|&;<>()\n$`*?[", "~#"  # what a shell reads, unless it is quoted
_READABLE = PurePath("/dev")  # outside of every folder, and there for all


def parse_run_line(line: str, directory: Path) -> tuple[str, ProgramRun]:
    """Read a command line such as `LANG=C ./app -n 3 input.txt < more.txt`.

    Files and folders below a directory that arguments name are given to the program under the same names.

    Args:
        line: the command line. Of a shell's language it has quotes, assignments before the command, and `< file`.
        directory: the folder of its files.

    Returns:
        The first word, which stands for the program, and the run, of which no exit status or output is expected.

    Raises:
        ValueError: when it cannot be read, or asks a shell for more.
    """
    command, name = _redirected(line)
    words = shlex.split(command)
    stdin = b""
    if name:
        source, *more = shlex.split(name) or [""]
        words += more
        stdin = _read(directory, source)
    environment: dict[str, str] = {}
    while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
        environment[assignment[1]] = assignment[2]
        del words[0]
    if not words:
        raise ValueError("there is no command in it")
    run = ProgramRun(tuple(words[1:]), exit_status=None, stdin=stdin, environment=environment)
    return words[0], with_files(run, directory)


def with_files(run: ProgramRun, directory: Path) -> ProgramRun:
    """Return a run with the files that its arguments name.

    Raises:
        ValueError: when one cannot be read, or is not below the directory.
    """
    files: dict[str, bytes] = {}
    for word in run.arguments:
        files |= _named_by(word, directory)
    return dataclasses.replace(run, files=files)


def _redirected(line: str) -> tuple[str, str]:
    """Return a line up to `<`, and what follows.

    Raises:
        ValueError: when there is something else that only a shell does.
    """
    quote, place, index = "", -1, 0
    while index < len(line):
        character = line[index]
        if character == "\\" and quote != "'":
            index += 1
        elif quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in "$`":
                raise _of_a_shell(character)
        elif character in "'\"":
            quote = character
        elif character == "<" and place < 0 and line[index + 1 : index + 2] not in ("<", "(", "&", ">"):
            place = index
        elif character in _SHELL or (character in _AT_START and line[index - 1 : index] in ("", " ", "\t")):
            raise _of_a_shell(character)
        index += 1
    return (line, "") if place < 0 else (line[:place], line[place + 1 :] or " ")


def _of_a_shell(character: str) -> ValueError:
    return ValueError(
        f"no shell reads it, so {character!r} does nothing there: only quotes, VARIABLE=value before the command and "
        f"`< file` are understood; put quotes around {character!r} if the program is to see it"
    )


def _named_by(word: str, directory: Path) -> dict[str, bytes]:
    """Return the files named by an argument, a file or folder, by their names for the program."""
    path = PurePath(word)
    if word in ("", ".", "/") or "\0" in word or path.is_relative_to(_READABLE) or not (directory / word).exists():
        return {}
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(
            f"the argument {word!r} is outside of {directory.absolute()}, so the program will not find it: a run has "
            "only files of that folder; copy it there"
        )
    if (directory / word).is_file():
        return {word: _read(directory, word)}
    files = sorted(found for found in (directory / word).rglob("*") if found.is_file())
    return {str(found.relative_to(directory)): _read(directory, str(found.relative_to(directory))) for found in files}


def _read(directory: Path, name: str) -> bytes:
    if not name:
        raise ValueError("no file follows `<`")
    path = directory / name
    try:
        if path.exists() and not (path.is_file() or path.is_dir() or path.samefile(os.devnull)):
            raise ValueError(f"the input file {path} is a device, a pipe or a socket, which may have no end")
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"the input file {directory / name} cannot be read: {error.strerror}") from None
