"""Smoke test of a build's programs: started without arguments, before and after their images are replaced."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiocg.datasets.scratch import scratch_folder
from aiocg.shrink.checking import Check
from aiocg.shrink.record import Link

LONGEST = 2.0  # seconds for one run; what runs longer is no program to be compared
PATIENCE = 5.0  # times as long for a program that ended in time before
BUDGET = 20.0  # seconds for the first two runs of all programs
LIMITS = "ulimit -c 0; ulimit -t 5; ulimit -f 131072; ulimit -v 4194304"  # seconds, blocks of 512 bytes, KiB
_EXECUTABLE = (2, 3)  # types of ELF files


@dataclass(frozen=True, slots=True)
class _Run:
    """What a program did: its exit status, and what it printed."""

    status: int
    output: bytes
    errors: bytes


@dataclass(slots=True)
class Smoke(Check):
    """Checks that programs do what they did before, in a box: with empty input and without arguments.

    Attributes:
        links: of the build; programs among their images are run.
    """

    links: Sequence[Link] = ()
    _expected: dict[Path, _Run] = field(default_factory=dict, init=False)

    def holds(self) -> bool:
        """Learn what the programs do, each twice; those are left out that do not always do the same, or do not end."""
        programs = [link for link in self.links if _is_program(link)]
        if programs and (problem := _problem()):
            self.tell(f"the programs are not started, before and after, for comparison: {problem}")
            return True
        started = time.monotonic()
        for link in programs:
            if time.monotonic() - started > BUDGET:
                break
            first = self._done(link.output)
            if first is None or (second := self._done(link.output)) is None:
                continue
            if (first.status, first.output) == (second.status, second.output):
                self._expected[link.output] = _Run(first.status, first.output, b"" if first != second else first.errors)
        return True

    def _run(self) -> bool:
        self.runs += 1
        return all(self._agrees(path, run) for path, run in self._expected.items())

    def _agrees(self, path: Path, expected: _Run) -> bool:
        now = self._done(path, PATIENCE * LONGEST)
        if now is None or (now.status, now.output) != (expected.status, expected.output):
            return False
        return not expected.errors or now.errors == expected.errors

    def _done(self, program: Path, longest: float = LONGEST) -> _Run | None:
        """Run a program; None if it does not end in time."""
        folders = os.pathsep.join(dict.fromkeys(str(link.output.parent) for link in self.links))
        with scratch_folder() as folder, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            line = [*_box(str(folder), folders), "/bin/sh", "-c", f'{LIMITS}; exec "$@"', "sh", str(program)]
            with subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
            ) as process:
                try:
                    status = process.wait(longest)
                except subprocess.TimeoutExpired:
                    return None
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            errors.seek(0)
            return _Run(status, output.read(), errors.read())


def _is_program(link: Link) -> bool:
    """Say whether the image of a link can be started on this machine."""
    try:
        with open(link.output, "rb") as file:
            head = file.read(20)
        machine = Path("/proc/self/exe").read_bytes()[18:20]
    except OSError:
        return False
    kind = int.from_bytes(head[16:18], "little")
    shared = {"-shared", "--shared", "-Bshareable"}.intersection(link.command.words)
    return head[:4] == b"\x7fELF" and kind in _EXECUTABLE and head[18:20] == machine and not shared


def _problem() -> str:
    """Say why no program can be run in a box; "" if it can."""
    if shutil.which("bwrap") is None:
        return "there is no bwrap on PATH to box them with (Debian: apt install bubblewrap)"
    with scratch_folder() as folder:
        done = subprocess.run(
            [*_box(str(folder), ""), "true"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    return done.stderr.decode(errors="replace").strip()[-200:] if done.returncode else ""


def _box(folder: str, libraries: str) -> Iterator[str]:
    """Yield the command of a box in which nothing but a folder can be written, and there is no network."""
    yield from ("bwrap", "--unshare-user", "--unshare-all", "--cap-drop", "ALL", "--new-session", "--clearenv")
    yield from ("--die-with-parent", "--ro-bind", "/", "/", "--tmpfs", "/run", "--proc", "/proc", "--dev", "/dev")
    yield from ("--bind", folder, folder, "--chdir", folder, "--setenv", "HOME", folder, "--setenv", "TMPDIR", folder)
    yield from ("--setenv", "PATH", os.defpath, "--setenv", "LC_ALL", "C", "--setenv", "LD_LIBRARY_PATH", libraries)
    yield "--"
