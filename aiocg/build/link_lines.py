"""What CMake's and Ninja's files say of linking, of which a compilation database says nothing."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiocg.llvm.recording import is_driver

TIMEOUT = 60.0  # seconds for Ninja to list its commands

_AR = re.compile(r"(?:[\w.]+-)*ar(?:-\d+)?")


def link_commands(folder: Path) -> Iterator[tuple[list[str], Path]]:
    """Yield the commands by which a build folder links, and where they are carried out; none if that is not known.

    CMake writes them for `make`, and Ninja, which Meson uses too, tells them. Nothing is built.

    Args:
        folder: the one in which `compile_commands.json` lies.
    """
    try:
        targets = (folder / "CMakeFiles/TargetDirectories.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        targets = []
    for target in map(Path, targets):
        try:
            lines = (target / "link.txt").read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            yield from _commands(line, target.parent.parent)
    if (folder / "build.ninja").is_file():
        for line in _ninja_commands(folder):
            yield from _commands(line, folder)


def archive_of(words: Sequence[str], directory: Path) -> tuple[Path, tuple[Path, ...]] | None:
    """Return the archive that a command of `ar` makes and its members; None if it is another command."""
    if len(words) < 3 or not _AR.fullmatch(os.path.basename(words[0])):
        return None
    operands = [word for word in words[2:] if not word.startswith("-")]
    if not re.fullmatch(r"-?[a-zA-Z]*[rq][a-zA-Z]*", words[1]) or not operands:
        return None
    archive, *members = (Path(os.path.normpath(directory / word)) for word in operands)
    return archive, tuple(members)


def _ninja_commands(folder: Path) -> list[str]:
    ninja = shutil.which("ninja") or shutil.which("ninja-build")
    if ninja is None:
        return []
    command = [ninja, "-C", str(folder), "-t", "commands"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.splitlines()


def _commands(line: str, directory: Path) -> Iterator[tuple[list[str], Path]]:
    """Take a line for the shell apart, as far as build systems write it: `cd x && cc … && :`."""
    try:
        words = shlex.split(line)
    except ValueError:
        return
    part: list[str] = []
    for word in [*words, "&&"]:
        if word != "&&":
            part.append(word)
            continue
        if len(part) == 2 and part[0] == "cd":
            directory = directory / part[1]
        elif _links(part):
            yield part, directory
        part = []


def _links(words: Sequence[str]) -> bool:
    """Say whether a command links or makes an archive; it may also compile, copy or print something."""
    if not words or {"-c", "-S", "-E"} & set(words):
        return False
    return is_driver(words[0]) or _AR.fullmatch(os.path.basename(words[0])) is not None
