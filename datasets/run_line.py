"""Command lines that say how a program is run, as one would type them in a shell."""

import dataclasses
import re
import shlex
from pathlib import Path, PurePath

from aiocg.datasets.recipe import ProgramRun

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
    try:
        return (directory / name).read_bytes()
    except OSError as error:
        raise ValueError(f"the input file {directory / name} cannot be read: {error.strerror}") from None
