"""Quick start of `aiocg cc` for lines that are clang's alone, such as the probes of a configure script.

Nothing is imported that Python has not loaded anyway. How clang is started takes longer to find out than a probe, so
`aiocg.cli._cc` keeps it in a file, with the times of all folders that have a say in it.
"""

import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from aiocg.shrink import compiler

VARIABLES = ("AIOCG_CLANG", "AIOCG_LLVM", "AIOCG_LLVM_LIBRARY", "PATH", "LD_LIBRARY_PATH")
TINY_SOURCE = 256  # bytes of a source that is not searched, such as those of hand-written `configure` scripts

_PROBES = re.compile(r"(?:conftest|ztest\d+)\.\w+|(?:.*/)?(?:CMakeFiles|CMakeTmp|meson-private)/.*")
"""Sources of the tests by which build systems find out what a compiler can do: nothing is to be gained in them."""

_MODES = ("-E", "-S", "-M", "-MM", "-fsyntax-only")
_QUESTIONS = ("--version", "--help", "-###", "-dump", "--print-", "-print-")
_BUDGET = re.compile(r"(?:[1-9]\d*(?:\.\d*)?)?")  # others may be errors


def start(name: str, words: Sequence[str], plan: compiler.Plan | None = None) -> None:
    """Let clang take the place of this process if a line is surely clang's alone; return otherwise.

    Args:
        name: "cc" or "c++".
        words: the command line after it.
        plan: how clang is started; read from the file if there is none.
    """
    recorded = bool(os.environ.get("AIOCG_CC_RECORD"))
    if plan is None and (recorded or not _BUDGET.fullmatch(os.environ.get("AIOCG_CC_BUDGET", ""))):
        return
    locked = bool(os.environ.get(compiler.VARIABLE))
    links = locked or _links(words, os.environ.get("AIOCG_CC_SEARCH", ""))
    if links is None or (plan := plan or read_plan()) is None:
        return
    clang, *flags = plan[name] + (plan[f"{name} links"] if links else [])
    driver = [sys.executable, "-I", "-S", compiler.__file__, clang, name] if locked else [clang]
    become([*driver, *flags, *words], plan)


def become(command: list[str], plan: compiler.Plan) -> NoReturn:
    """Let clang take the place of this process, with its exit status, its signals and its terminal."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, environment(plan))


def environment(plan: compiler.Plan) -> dict[str, str]:
    """Return the variables that clang needs."""
    added = iter(plan["environment"])
    return {**os.environ, **dict(zip(added, added, strict=True))}


def is_trifle(path: str, *, searches: bool) -> bool:
    """Say whether a source is a build system's probe, or too small to search for its passes."""
    if _PROBES.fullmatch(path):
        return True
    try:
        return searches and os.path.getsize(path) < TINY_SOURCE
    except OSError:
        return False  # clang knows how to say it


def _links(words: Sequence[str], search: str) -> bool | None:
    """Say whether a line that is clang's alone links; None if it is not surely clang's alone."""
    if any(word.startswith(("-X", "@")) or word in ("--", "-mllvm") for word in words):
        return None
    if any(word in _MODES or word.startswith(_QUESTIONS) for word in words):
        return False
    if any(word.startswith("-x") or word == "-" for word in words):
        return None
    named = [word for word in words if not word.startswith("-")]
    sources = [word for word in named if word.endswith(compiler.SOURCES)]
    level = next((word for word in reversed(words) if word.startswith("-O")), "")
    if search != "none" and level != "-O0" and not all(is_trifle(one, searches=not search) for one in sources):
        return None
    return bool(named) and "-c" not in words


def read_plan() -> compiler.Plan | None:
    """Return how clang is started, as the file has it; None if that is not known or may have changed."""
    try:
        with open(path(), "rb") as file:
            plan = compiler.plan_of(os.fsdecode(file.read()))
    except OSError:
        return None
    if plan.get("key") != key() or times(plan.get("places", [])) != plan.get("times"):
        return None
    return plan


def path() -> str:
    """Return where the file is."""
    folder = os.environ.get("AIOCG_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/aiocg"
    return os.path.join(os.path.expanduser(folder), "cc-start")


def key() -> list[str]:
    """Return what else has a say in how clang is started."""
    return [*(os.environ.get(name, "") for name in VARIABLES), *sys.path]


def times(places: Sequence[str]) -> list[str]:
    """Return when files and folders were last modified; "" for what is not there."""
    found = []
    for place in places:
        try:
            found.append(str(os.stat(place or ".").st_mtime_ns))
        except OSError:
            found.append("")
    return found
