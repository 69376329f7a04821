"""Isolation of programs: in a box created by bubblewrap, or only with resource limits.

A program in a box has no network, sees no other processes of the machine, and can write only to its own folder. The
process that starts programs (`aiocg.workers.programs.runner`) is itself in the box, so that creating the box does not
affect measurements: a program is timed as without a box.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.programs.recipe import failure

VARIABLE = "AIOCG_SANDBOX"
MODES = ("auto", "bwrap", "rlimits")
HOW = (
    "install bubblewrap (Debian: apt install bubblewrap), let users have namespaces of their own "
    "(sysctl kernel.unprivileged_userns_clone=1), or"
)
HERE = f"{HOW} set {VARIABLE}=rlimits"
ON_A_NODE = f"on the node, {HOW} serve with --unboxed-programs, by which they run with the rights of the node's user"
PROBE_TIMEOUT = 30.0  # seconds
FOLDER, TEMPORARY, SHARED = "folder", "tmp", "shm"  # a program's working folder, /tmp and /dev/shm
WRITABLE = (FOLDER, TEMPORARY, SHARED)

_INSIDE = "/run/program"  # the folder's path in a box
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")  # the system's programs and libraries


class Enclosure(NamedTuple):
    """The enclosure of programs.

    Attributes:
        command: prefix of commands to run in the box; empty without a box.
        root: the folder's path as programs see it.
        problem: why there is no box; "" if there is one or none is wanted.
    """

    command: list[str]
    root: Path
    problem: str = ""


class Sandbox(NamedTuple):
    """How programs are isolated.

    Attributes:
        mode: one of `MODES`.
        narrow: whether a box shows only the system's programs and libraries, not all files.
    """

    mode: str = "auto"
    narrow: bool = False

    def make(self, root: Path) -> Enclosure:
        """Test whether boxes work, and return the enclosure for programs.

        Args:
            root: a folder in which the folders of `WRITABLE` are created.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if a box is required but cannot be created.
        """
        for name in WRITABLE:
            (root / name).mkdir()
        if self.mode == "rlimits":
            return Enclosure([], root)
        bwrap = shutil.which("bwrap")
        problem = f"there is no bwrap on PATH ({os.environ.get('PATH', '')})"
        ways = (("--disable-userns",), ())  # since version 0.8
        for more in (*ways, *ways) if bwrap else ():  # it fails where somebody unmounts something at that moment
            command = [str(bwrap), *self._options(root), *more, "--"]
            if not (problem := _try([*command, python(), "-I", "-S", "-c", "import ctypes, json"])):
                return Enclosure(command, Path(_INSIDE))
        if self.mode == "bwrap":
            how = ON_A_NODE if self.narrow else HERE
            raise failure(f"programs may be run in a box only, and none can be made: {problem}; {how}", machine=True)
        return Enclosure([], root, problem)

    def _options(self, root: Path) -> Iterator[str]:
        yield from ("--unshare-user", "--unshare-all", "--cap-drop", "ALL", "--new-session", "--clearenv")
        yield from ("--die-with-parent", "--as-pid-1")
        yield from self._narrow_view() if self.narrow else ("--ro-bind", "/", "/")
        yield from ("--tmpfs", "/run")  # hides sockets that control the machine
        yield from ("--proc", "/proc", "--remount-ro", "/proc")  # root could control the kernel there
        yield from ("--dev", "/dev", "--remount-ro", "/dev")
        yield from ("--bind", str(root / SHARED), "/dev/shm", "--bind", str(root / TEMPORARY), "/tmp")
        for path in dict.fromkeys((sys.base_prefix, sys.prefix, os.path.dirname(python()))):
            if not any(Path(path).is_relative_to(system) for system in _SYSTEM):
                yield from ("--ro-bind-try", path, path)
        yield from ("--ro-bind", str(root), _INSIDE)
        yield from ("--bind", str(root / FOLDER), f"{_INSIDE}/{FOLDER}", "--remount-ro", "/run")
        if self.narrow:
            yield from ("--remount-ro", "/")
        yield from ("--chdir", f"{_INSIDE}/{FOLDER}")

    def _narrow_view(self) -> Iterator[str]:
        for path in _SYSTEM:
            if os.path.islink(path):
                yield from ("--symlink", os.readlink(path), path)
            elif os.path.isdir(path):
                yield from ("--ro-bind", path, path)
        yield from ("--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache")


def choose(options: Mapping[str, Any]) -> Sandbox:
    """Read the setting: a worker's option `sandbox`, or else `AIOCG_SANDBOX`.

    Programs of untrusted clients (`untrusted`) run in a box or not at all, whatever the setting, unless the node's user
    allows otherwise (`unboxed_programs`).

    Raises:
        CompilationError: with `FailureCode.COMPILER` if it is none of `MODES`.
    """
    source = "the option sandbox" if options.get("sandbox") else VARIABLE
    mode = options.get("sandbox") or os.environ.get(VARIABLE) or "auto"
    if mode not in MODES:
        raise CompilationError(FailureCode.COMPILER, f"{source} is {mode!r}: expected one of {', '.join(MODES)}")
    untrusted = bool(options.get("untrusted"))
    return Sandbox("bwrap" if untrusted and not options.get("unboxed_programs") else mode, narrow=untrusted)


def python() -> str:
    """Return the interpreter, resolving links of virtual environments, which may be dangling in a box."""
    return os.path.realpath(sys.executable)


def _try(command: Sequence[str]) -> str:
    """Return the error of a command; "" if it succeeds."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if not done.returncode else done.stderr.strip()[-500:] or f"bwrap ended with {done.returncode}"
