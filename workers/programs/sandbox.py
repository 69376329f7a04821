"""Where programs are run: in a box made by bubblewrap, or within resource limits only.

A box has no network, sees no process of the machine's, and can write nothing but its own folder. The process that
starts programs (`aiocg.workers.programs.runner`) is itself in the box, so that making one costs a measurement nothing:
a program is timed there as it is without a box.
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

__all__ = ["MODES", "VARIABLE", "Place", "Sandbox", "choose"]

VARIABLE = "AIOCG_SANDBOX"
MODES = ("auto", "bwrap", "rlimits")
HOW = (
    "install bubblewrap (Debian: apt install bubblewrap), let users have namespaces of their own "
    f"(sysctl kernel.unprivileged_userns_clone=1), or set {VARIABLE}=rlimits"
)
PROBE_TIMEOUT = 30.0  # seconds
FOLDER, TEMPORARY, SHARED = "folder", "tmp", "shm"  # where a program runs, and what it sees as /tmp and /dev/shm
WRITABLE = (FOLDER, TEMPORARY, SHARED)

_INSIDE = "/run/program"  # where a box shows its folder
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")  # where a system has its programs and libraries


class Place(NamedTuple):
    """Where programs run.

    Attributes:
        command: what makes a box of the command that is put behind it; empty where there is no box.
        root: the folder that it was made with, as it is seen from there.
        problem: why there is no box, "" when there is one or none is wanted.
    """

    command: list[str]
    root: Path
    problem: str = ""


class Sandbox(NamedTuple):
    """How programs are kept apart from the machine.

    Attributes:
        mode: one of `MODES`.
        narrow: a box shows the system's programs and libraries only, not all files of the machine.
    """

    mode: str = "auto"
    narrow: bool = False

    def make(self, root: Path) -> Place:
        """Find out whether there can be a box, and return the place to run programs in.

        Args:
            root: a folder for what the programs need, in which the folders of `WRITABLE` are made.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when there must be a box and there can be none.
        """
        for name in WRITABLE:
            (root / name).mkdir()
        if self.mode == "rlimits":
            return Place([], root)
        bwrap = shutil.which("bwrap")
        problem = f"there is no bwrap on PATH ({os.environ.get('PATH', '')})"
        for more in (("--disable-userns",), ()) if bwrap else ():  # which it has since version 0.8
            command = [str(bwrap), *self._options(root), *more, "--"]
            if not (problem := _try([*command, python(), "-I", "-S", "-c", "import ctypes, json"])):
                return Place(command, Path(_INSIDE))
        if self.mode == "bwrap":
            raise CompilationError(
                FailureCode.OBSERVATION, f"programs may be run in a box only, and none can be made: {problem}; {HOW}"
            )
        return Place([], root, problem)

    def _options(self, root: Path) -> Iterator[str]:
        yield from ("--unshare-user", "--unshare-all", "--cap-drop", "ALL", "--new-session", "--clearenv")
        yield from ("--die-with-parent", "--as-pid-1")
        yield from self._narrow_view() if self.narrow else ("--ro-bind", "/", "/")
        yield from ("--tmpfs", "/run")  # where sockets are by which a machine can be told to do things
        yield from ("--proc", "/proc", "--remount-ro", "/proc")  # where root could tell the kernel what to do
        yield from ("--dev", "/dev", "--remount-ro", "/dev")
        yield from ("--bind", str(root / SHARED), "/dev/shm", "--bind", str(root / TEMPORARY), "/tmp")
        for path in dict.fromkeys((sys.base_prefix, sys.prefix, os.path.dirname(python()))):
            if not path.startswith(_SYSTEM):
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
    """Read how programs are to be kept apart: a worker's option `sandbox`, or else `AIOCG_SANDBOX`.

    Raises:
        CompilationError: with `FailureCode.COMPILER` when it is none of `MODES`.
    """
    source = "the option sandbox" if options.get("sandbox") else VARIABLE
    mode = options.get("sandbox") or os.environ.get(VARIABLE) or "auto"
    if mode not in MODES:
        raise CompilationError(FailureCode.COMPILER, f"{source} is {mode!r}: expected one of {', '.join(MODES)}")
    return Sandbox(mode, narrow=bool(options.get("untrusted")))


def python() -> str:
    """Return the interpreter itself: a virtual environment's is a link, which need not lead anywhere in a box."""
    return os.path.realpath(sys.executable)


def _try(command: Sequence[str]) -> str:
    """Return what is wrong with a command, "" if it ends well."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if not done.returncode else done.stderr.strip()[-500:] or f"bwrap ended with {done.returncode}"
