"""Running programs: each run alone in an empty folder, with bounded time, memory and output, and timed if need be.

Programs are not started by the worker but by a small process of its own, the runner (`aiocg.workers.llvm.runner`).
"""

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from aiocg.workers.llvm.program import TOO_LATE, Run, failure, remaining, temporary_folder, write_files

MEMORY_LIMIT = 2 << 30  # bytes of address space
FILE_LIMIT = 64 << 20  # bytes of each file that a program writes, its output among them
LONGEST = 1e6  # seconds that any program may run; the system counts milliseconds in 31 bits
HEAD = 4096  # bytes of an output that are shown
LAST_WORDS = 2048  # bytes of standard error that are shown
POLL_INTERVAL = 0.01  # seconds between looks for a core
RUNNER = Path(__file__).with_name("runner.py")


class Ended(NamedTuple):
    """How a run ended.

    Attributes:
        run: which it was.
        exit_code: what the program returned, or minus the number of the signal that ended it.
        seconds: from its start to its end, on the monotonic clock.
        timed_out: it was stopped because its time was up.
        folder: in which it ran; `stdout` and `stderr` are files beside it.
    """

    run: Run
    exit_code: int
    seconds: float
    timed_out: bool
    folder: Path

    @property
    def stdout(self) -> Path:
        """The file with what it wrote on standard output."""
        return self.folder.parent / "stdout"

    @property
    def stderr(self) -> Path:
        """The file with what it wrote on standard error."""
        return self.folder.parent / "stderr"

    def problem(self) -> str:
        """Say in what the run differs from what is expected of it, "" if in nothing."""
        if self.timed_out:
            return "ran out of time and was stopped"
        if self.exit_code < 0:
            return f"was ended by {_signal_name(self.exit_code)}"
        if self.exit_code != self.run.exit_status:
            return f"ended with exit status {self.exit_code}, not {self.run.exit_status}"
        if self.run.stdout is not None and read_file(self.stdout) != self.run.stdout:
            return "wrote something else than expected on standard output"
        for name, content in self.run.outputs.items():
            written = read_file(self.folder / name)
            if written is None:
                return f"did not write the file {name}"
            if content is not None and written != content:
                return f"wrote something else than expected to the file {name}"
        return ""

    def describe(self) -> dict[str, Any]:
        """Return the run as JSON can say it, without what differs from one time to the next."""
        return {
            "name": self.run.name,
            "exit_code": None if self.exit_code < 0 else self.exit_code,
            "signal": _signal_name(self.exit_code) if self.exit_code < 0 and not self.timed_out else None,
            "timed_out": self.timed_out,
            "problem": self.problem(),
            "stdout": _describe_file(self.stdout),
            "stderr": (read_file(self.stderr) or b"")[-LAST_WORDS:].decode(errors="backslashreplace"),
            "files": {name: _describe_file(self.folder / name) for name in sorted(self.run.outputs)},
        }


class Runner:
    """The process that starts programs, itself started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def run(
        self,
        executable: Path,
        run: Run,
        deadline: float,
        cpu: int | None = None,
        memory: int | None = MEMORY_LIMIT,
    ) -> Iterator[Ended]:
        """Run a program; what it wrote is there while the context lasts.

        Args:
            executable: the program.
            run: how to run it.
            deadline: when to stop it at the latest, in seconds of the monotonic clock.
            cpu: the core to run it on, None for any.
            memory: bytes of address space that it may have, None for any number.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when it cannot be started.
        """
        with temporary_folder("run-") as scratch:
            folder, stdin = Path(scratch, "folder"), Path(scratch, "stdin")
            write_files(folder, run.files)
            write_files(Path(scratch), {"stdin": run.stdin})
            left = remaining(deadline)
            timeout = min(run.timeout, left, LONGEST)
            answer = self._ask(
                {
                    "executable": str(executable),
                    "arguments": run.arguments,
                    "environment": run.environment,
                    "folder": str(folder),
                    "stdin": str(stdin),
                    "stdout": str(Path(scratch, "stdout")),
                    "stderr": str(Path(scratch, "stderr")),
                    "timeout": timeout,
                    "cpu": cpu,
                    "limits": {
                        **({} if memory is None else {"RLIMIT_AS": memory}),
                        "RLIMIT_FSIZE": FILE_LIMIT,
                        "RLIMIT_CPU": int(timeout) + 2,
                        "RLIMIT_CORE": 0,
                    },
                }
            )
            if answer["problem"]:
                raise failure(f"the program cannot be started: {answer['problem']}")
            if answer["timed_out"] and left < run.timeout:
                raise failure(TOO_LATE, "running")
            yield Ended(run, answer["exit_code"], answer["seconds"], answer["timed_out"], folder)

    def close(self) -> None:
        """End the process, and with it what it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(RUNNER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # it must outlive us for a moment, to end what it runs
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = b""
        if not line:
            self.close()
            raise failure("the process that starts programs was killed")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextlib.contextmanager
def measuring_core(deadline: float) -> Iterator[int]:
    """Have a core for as long as the context lasts, on which no other worker on this machine measures.

    A core is taken by the name of a socket that belongs to nothing on disk, which vanishes with the process.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` when none is to be had before the deadline.
    """
    cores = sorted(os.sched_getaffinity(0), reverse=True)  # the first ones serve most interrupts
    with socket.socket(socket.AF_UNIX) as lock:
        while (core := next((core for core in cores if _take(lock, core)), None)) is None:
            remaining(deadline)
            time.sleep(POLL_INTERVAL)
        yield core


def _take(lock: socket.socket, core: int) -> bool:
    try:
        lock.bind(f"\0aiocg-measuring-core-{core}")
    except OSError:
        return False
    return True


def _signal_name(exit_code: int) -> str:
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def read_file(path: Path) -> bytes | None:
    """Return what a program wrote to a file; None when there is no such file, or it left what cannot be read."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError:
        return None


def _describe_file(path: Path) -> dict[str, Any] | None:
    """Return size, hash and beginning of a file, None when there is none."""
    content = read_file(path)
    if content is None:
        return None
    return {
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "head": content[:HEAD].decode(errors="backslashreplace"),
    }
