"""Running programs: each run alone in an empty folder, with bounded time, memory and output, and timed if need be.

Programs are not started by the worker but by a small process of its own, the runner (`aiocg.workers.programs.runner`),
which is in a box where there can be one (`aiocg.workers.programs.sandbox`). What they leave is not to be trusted.
"""

import contextlib
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from aiocg.workers.programs import scratch
from aiocg.workers.programs.linking import EXECUTABLE, TOO_LATE, no_place, remaining, temporary_folder, write_files
from aiocg.workers.programs.recipe import Run, failure
from aiocg.workers.programs.sandbox import FOLDER, WRITABLE, Place, Sandbox, choose, python

MEMORY_LIMIT = 2 << 30  # bytes of address space
RESIDENT_LIMIT = 4 << 30  # bytes that a program may have in memory with all that it has started
FILE_LIMIT = 64 << 20  # bytes of each file that a program writes, its output among them
OPEN_FILES = 1024
PROCESSES = 256  # and threads, beside those that the user has; root may have any number
LONGEST = 1e6  # seconds that any program may run; the system counts milliseconds in 31 bits
PATIENCE = 10.0  # seconds that the runner may take beyond a program's own, to end what it has left
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
        stopped: what it had run out of when it was stopped, "time" or "memory"; "" when it was not.
        folder: in which it ran.
        files: what it had as standard input, output and error.
    """

    run: Run
    exit_code: int
    seconds: float
    stopped: str
    folder: Path
    files: tuple[IO[bytes], IO[bytes], IO[bytes]]

    @property
    def stdout(self) -> bytes:
        """What it wrote on standard output."""
        return _content(self.files[1])

    @property
    def stderr(self) -> bytes:
        """What it wrote on standard error."""
        return _content(self.files[2])

    def problem(self) -> str:
        """Say in what the run differs from what is expected of it, "" if in nothing."""
        if self.stopped:
            return f"ran out of {self.stopped} and was stopped"
        if self.exit_code < 0:
            return f"was ended by {_signal_name(self.exit_code)}"
        if self.exit_code != self.run.exit_status:
            return f"ended with exit status {self.exit_code}, not {self.run.exit_status}"
        if self.run.stdout is not None and self.stdout != self.run.stdout:
            return "wrote something else than expected on standard output"
        for name, content in self.run.outputs.items():
            written = scratch.read(self.folder, name)
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
            "signal": _signal_name(self.exit_code) if self.exit_code < 0 and not self.stopped else None,
            "timed_out": self.stopped == "time",
            "problem": self.problem(),
            "stdout": _describe(self.stdout),
            "stderr": self.stderr[-LAST_WORDS:].decode(errors="backslashreplace"),
            "files": {name: _describe(scratch.read(self.folder, name)) for name in sorted(self.run.outputs)},
        }


class Runner:
    """The process that starts programs, itself started when it is first needed.

    Args:
        sandbox: how programs are kept apart from the machine; None is as the user has chosen.
    """

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self.sandbox = sandbox or choose({})
        self._started: _Process | None = None

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
        if self._started is None or not self._started.usable():
            self.close()
            self._started = _Process(self.sandbox)
        process = self._started
        try:
            process.put(executable, run)
            left = remaining(deadline)
            timeout = min(run.timeout, left, LONGEST)
            answer = process.ask(
                {
                    "executable": str(process.place.root / EXECUTABLE),
                    "arguments": run.arguments,
                    "environment": run.environment,
                    "folder": str(process.place.root / FOLDER),
                    "timeout": timeout,
                    "resident": RESIDENT_LIMIT,
                    "cpu": cpu,
                    "limits": {
                        **({} if memory is None else {"RLIMIT_AS": memory}),
                        "RLIMIT_FSIZE": FILE_LIMIT,
                        "RLIMIT_CPU": int(timeout) + 2,
                        "RLIMIT_CORE": 0,
                        "RLIMIT_MSGQUEUE": 0,
                        "RLIMIT_NOFILE": OPEN_FILES,
                        "RLIMIT_NPROC": PROCESSES,
                    },
                },
                timeout + PATIENCE,
            )
            if answer["problem"]:
                raise failure(f"the program cannot be started: {answer['problem']}")
            if answer["stopped"] == "time" and left < run.timeout:
                raise failure(TOO_LATE, "running")
            code, seconds, stopped = answer["exit_code"], answer["seconds"], answer["stopped"]
            yield Ended(run, code, seconds, stopped, process.folder, process.files)
        finally:
            if not process.clean():
                self.close()

    def close(self) -> None:
        """End the process, and with it what it runs."""
        process, self._started = self._started, None
        if process is not None:
            process.close()


class _Process:
    """A runner that was started, the folder in which its programs run, and the files that they have as standard ones.

    These files have no name, so that no program can put something else in their place.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._root = temporary_folder("box-")
        root = Path(self._root.name)
        self.place: Place = sandbox.make(root)
        self.folder = root / FOLDER
        self._keep = frozenset[Path]().union(*(scratch.folders_in(root / name) for name in WRITABLE))
        self._spent = False
        try:
            shutil.copyfile(RUNNER, root / RUNNER.name)
            self.files = _nameless(), _nameless(), _nameless()
            self._input = os.open(f"/proc/self/fd/{self.files[0].fileno()}", os.O_RDONLY)
        except OSError as error:
            raise no_place(error) from None
        numbers = [self._input, *(file.fileno() for file in self.files[1:])]
        script = [python(), "-I", "-S", str(self.place.root / RUNNER.name), *map(str, numbers)]
        self._process = subprocess.Popen(
            [*self.place.command, *script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=numbers,
            start_new_session=True,  # it must outlive us for a moment, to end what it runs
        )

    def usable(self) -> bool:
        """Say whether another program can be run."""
        return not self._spent and self._process.poll() is None and self.folder.is_dir()

    def put(self, executable: Path, run: Run) -> None:
        """Put a program and its files into their places.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when they cannot be written.
        """
        write_files(self.folder, run.files)
        own = Path(self._root.name, EXECUTABLE)
        try:
            own.unlink(missing_ok=True)
            shutil.copy(executable, own)
            for file in self.files:
                file.seek(0)
                file.truncate()
            self.files[0].write(run.stdin)
            self.files[0].flush()
            os.lseek(self._input, 0, os.SEEK_SET)
        except OSError as error:
            raise no_place(error) from None

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Have a program run.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when the process does not answer in time.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._spent = True  # until there is an answer
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline() if poll.poll(timeout * 1000) else b""
        except OSError:
            line = b""
        if not line:
            raise failure("the process that starts programs was killed, or gives no answer")
        answer: dict[str, Any] = json.loads(line)
        self._spent = answer["spent"]
        return answer

    def clean(self) -> bool:
        """Remove what a program has left, and say whether that could be done and another one can be run."""
        try:
            for name in WRITABLE:
                scratch.empty(Path(self._root.name, name), self._keep)
        except OSError:
            return False
        return not self._spent

    def close(self) -> None:
        """End the process, and remove its folder."""
        self._process.kill()
        self._process.communicate()
        os.close(self._input)
        for file in self.files:
            file.close()
        self._root.cleanup()


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


def _nameless() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _content(file: IO[bytes]) -> bytes:
    """Return what is in a file, without moving the place that programs write at."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def _describe(content: bytes | None) -> dict[str, Any] | None:
    """Return size, hash and beginning of what a program wrote, None when there is none."""
    if content is None:
        return None
    return {
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "head": content[:HEAD].decode(errors="backslashreplace"),
    }
