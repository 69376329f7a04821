"""Running programs, one at a time in an empty folder, with bounded time, memory and output.

Programs are started not by the worker itself but by a small helper process, the runner
(`aiocg.workers.programs.runner`), which runs in a box if possible (`aiocg.workers.programs.sandbox`). The files that
programs leave are untrusted.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from aiocg.transport.system import DESCRIPTORS, processors
from aiocg.workers.programs import scratch
from aiocg.workers.programs.linking import (
    EXECUTABLE,
    TOO_LATE,
    check_space,
    no_place,
    remaining,
    temporary_folder,
    write_files,
)
from aiocg.workers.programs.parameters import Parameters
from aiocg.workers.programs.recipe import Program, Run, failure
from aiocg.workers.programs.sandbox import FOLDER, WRITABLE, Enclosure, Sandbox, choose, python

MEMORY_LIMIT = 16 << 30  # bytes of address space, most of which few programs touch
_MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # bytes of memory
RESIDENT_LIMIT = min(4 << 30, _MACHINE // 2)  # bytes of resident memory of a program and its children
FILE_LIMIT = 64 << 20  # bytes of each file written by a program, including output
OPEN_FILES = 1024
PROCESSES = 256  # and threads, beyond the user's existing ones; root has no limit
LONGEST = 1e6  # seconds of any run; the system counts milliseconds in 31 bits
PATIENCE = 10.0  # seconds beyond a program's timeout for the runner to clean up
HEAD = 4096  # shown bytes of an output
LAST_WORDS = 2048  # shown bytes of standard error
POLL_INTERVAL = 0.01  # seconds between attempts to get a core
RUNNER = Path(__file__).with_name("runner.py")
_ELF_HEADER = struct.Struct("<6s26xQ14xHH")  # of 64 bits: magic, and offset, entry size and length of the segments
_SEGMENT, _LOADED = struct.Struct("<I36xQ8x"), 1  # its kind, and its bytes in memory
_CORE, _GATE = "aiocg-measuring-core-", "aiocg-measuring-gate"


class Ended(NamedTuple):
    """The result of a run.

    Attributes:
        run: the run.
        exit_code: the program's exit status, or the negated number of the signal that killed it.
        seconds: the time from its start to its end, on the monotonic clock.
        stopped: why it was stopped, "time" or "memory"; "" if it was not stopped.
        folder: its working folder.
        files: its standard input, output and error.
        boxed: whether it ran in a box.
    """

    run: Run
    exit_code: int
    seconds: float
    stopped: str
    folder: Path
    files: tuple[IO[bytes], IO[bytes], IO[bytes]]
    boxed: bool

    @property
    def stdout(self) -> bytes:
        """Its standard output."""
        return _content(self.files[1])

    @property
    def stderr(self) -> bytes:
        """Its standard error."""
        return _content(self.files[2])

    def problem(self) -> str:
        """Describe how the run differs from the expected one; "" if it does not."""
        if self.stopped:
            return f"ran out of {self.stopped} and was stopped"
        if self.exit_code < 0:
            return f"was ended by {_signal_name(self.exit_code)}"
        if self.run.exit_status is not None and self.exit_code != self.run.exit_status:
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
        """Return the run as JSON data, without values that vary between runs."""
        return {
            "name": self.run.name,
            "exit_code": None if self.exit_code < 0 else self.exit_code,
            "signal": _signal_name(self.exit_code) if self.exit_code < 0 and not self.stopped else None,
            "timed_out": self.stopped == "time",
            "boxed": self.boxed,
            "problem": self.problem(),
            "stdout": _describe(self.stdout),
            "stderr": self.stderr[-LAST_WORDS:].decode(errors="backslashreplace"),
            "files": {name: _describe(scratch.read(self.folder, name)) for name in sorted(self.run.outputs)},
        }


class Runner:
    """The process that starts programs; it is started on first use.

    Args:
        sandbox: how programs are isolated; None for the user's setting.
    """

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self.sandbox = sandbox or choose({})
        self._started: _Process | None = None

    @contextlib.contextmanager
    def run(
        self, executable: Path, run: Run, deadline: float, cpu: int | None = None, memory: int | None = MEMORY_LIMIT
    ) -> Iterator[Ended]:
        """Run a program; its output exists during the context.

        Args:
            executable: the program.
            run: how to run it.
            deadline: the time limit, in seconds of the monotonic clock.
            cpu: the core to run it on; None for any.
            memory: the limit of address space in bytes; None for no limit.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if it cannot be started, or the disk is full.
        """
        if memory is not None and _loaded(executable) > memory:  # exec would kill it, as if it were at fault
            raise failure(f"the program cannot be started: its variables exceed the memory of a run, {memory} bytes")
        if self._started is None or not self._started.usable():
            self.close()
            self._started = _Process(self.sandbox)
        process = self._started
        try:
            process.put(executable, run)
            left = remaining(deadline)
            timeout = min(run.timeout, left, LONGEST)
            limits = {
                **({} if memory is None else {"RLIMIT_AS": memory}),
                "RLIMIT_FSIZE": FILE_LIMIT,
                "RLIMIT_CPU": int(timeout) + 2,
                "RLIMIT_CORE": 0,
                "RLIMIT_MSGQUEUE": 0,
                "RLIMIT_NOFILE": OPEN_FILES,
                "RLIMIT_NPROC": PROCESSES,
            }
            request = {
                "executable": str(process.enclosure.root / EXECUTABLE),
                "arguments": run.arguments,
                "environment": run.environment,
                "folder": str(process.enclosure.root / FOLDER),
                "timeout": timeout,
                "resident": RESIDENT_LIMIT,
                "cpu": cpu,
                "limits": limits,
            }
            answer = process.ask(request, timeout + PATIENCE)
            if answer["problem"]:
                raise failure(f"the program cannot be started: {answer['problem']}")
            if answer["stopped"] == "time" and left < run.timeout:
                raise failure(TOO_LATE, "running")
            check_space(process.folder)  # what the program wrote may be missing
            code, seconds, stopped = answer["exit_code"], answer["seconds"], answer["stopped"]
            boxed = bool(process.enclosure.command)
            yield Ended(run, code, seconds, stopped, process.folder, process.files, boxed)
        finally:
            if not process.clean():
                self.close()

    def close(self) -> None:
        """End the process and the programs that it runs."""
        process, self._started = self._started, None
        if process is not None:
            process.close()


def _loaded(executable: Path) -> int:
    """Return the bytes of memory that the segments of an ELF program take at its start; 0 for another format."""
    with open(executable, "rb") as file:
        header = file.read(_ELF_HEADER.size).ljust(_ELF_HEADER.size, b"\0")
        magic, start, size, count = _ELF_HEADER.unpack(header)
        if magic != b"\x7fELF\2\1" or size != _SEGMENT.size:
            return 0
        file.seek(start)
        table = file.read(size * count)
    return sum(memory for kind, memory in _SEGMENT.iter_unpack(table) if kind == _LOADED)


class _Process:
    """A running runner, with the folder and standard files of its programs.

    These files have no name, so that no program can replace them.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._root = temporary_folder("box-")
        with contextlib.ExitStack() as undo:  # clean up without the garbage collector
            undo.callback(self._root.cleanup)
            self._make(sandbox, Path(self._root.name), undo)
            undo.pop_all()

    def _make(self, sandbox: Sandbox, root: Path, undo: contextlib.ExitStack) -> None:
        self.enclosure: Enclosure = sandbox.make(root)
        self.folder = root / FOLDER
        self._keep = frozenset[Path]().union(*(scratch.folders_in(root / name) for name in WRITABLE))
        self._spent = False
        try:
            shutil.copyfile(RUNNER, root / RUNNER.name)
            self.files = _nameless(undo), _nameless(undo), _nameless(undo)
            self._input = os.open(f"{DESCRIPTORS}/{self.files[0].fileno()}", os.O_RDONLY)
            undo.callback(os.close, self._input)
        except OSError as error:
            raise no_place(error) from None
        numbers = [self._input, *(file.fileno() for file in self.files[1:])]
        script = [python(), "-I", "-S", str(self.enclosure.root / RUNNER.name), *map(str, numbers)]
        command, pipe, null = [*self.enclosure.command, *script], subprocess.PIPE, subprocess.DEVNULL
        # It must briefly outlive this process, to end the programs that it runs.
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=null, pass_fds=numbers, start_new_session=True
        )

    def usable(self) -> bool:
        """Return whether another program can be run."""
        return not self._spent and self._process.poll() is None and self.folder.is_dir()

    def put(self, executable: Path, run: Run) -> None:
        """Write a program and its files to the folder.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if they cannot be written.
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
        """Request a run of a program.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if the process does not reply in time.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._spent = True  # until it replies
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
        """Remove the files that a program left; return whether that succeeded and another program can be run."""
        try:
            for name in WRITABLE:
                scratch.empty(Path(self._root.name, name), self._keep)
        except OSError:
            return False
        return not self._spent

    def close(self) -> None:
        """End the process, and remove its folder."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # half of a box that is being made does not end with the other
        self._process.communicate()
        os.close(self._input)
        for file in self.files:
            file.close()
        self._root.cleanup()


Start = Callable[[Run, int | None], contextlib.AbstractContextManager[Ended]]
"""Performs a run of a program, on a core if one is given."""


def run_times(start: Start, run: Run, parameters: Parameters, deadline: float) -> list[float]:
    """Perform a run repeatedly; return the seconds of each. No other worker here measures on the same core meanwhile.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if it does not behave as expected, as far as that is known.
    """
    times = []
    with measuring_core(deadline, alone=bool(parameters.alone)) as core:
        for _ in range(parameters.warmups + parameters.runtimes):
            with start(run, core) as ended:
                if problem := ended.problem():
                    raise failure(f"the run {run.name!r} {problem}")
                times.append(ended.seconds)
    return times[parameters.warmups :]


def run_all(start: Start, program: Program) -> list[dict[str, Any]]:
    """Perform each run of a program once; return their descriptions, see `Ended.describe`."""
    described = []
    for run in program.runs:
        with start(run, None) as ended:
            described.append(ended.describe())
    return described


@contextlib.contextmanager
def measuring_core(deadline: float, *, alone: bool = False) -> Iterator[int]:
    """Reserve a core for measurements, among the workers on this machine, during the context.

    A core is reserved by taking its name. So is the gate, which is passed before a core is taken: who measures alone
    closes it, and waits until all cores are free.

    Args:
        deadline: the time limit of waiting, in seconds of the monotonic clock.
        alone: whether nothing else may be measured on this machine meanwhile.

    Raises:
        CompilationError: with `FailureCode.OBSERVATION` if no core is free before the deadline.
    """
    cores = processors()[::-1]  # the first cores serve most interrupts
    with _Name() as gate, _Name() as lock:
        if alone:
            _wait_for(gate, _GATE, deadline)
            for core in range(os.cpu_count() or 1):
                with _Name() as other:
                    _wait_for(other, f"{_CORE}{core}", deadline)
            _wait_for(lock, f"{_CORE}{cores[0]}", deadline)
            yield cores[0]
            return
        while (taken := _take_core(lock, cores)) is None:
            _wait(deadline)
        yield taken


def _wait_for(lock: "_Name", name: str, deadline: float) -> None:
    while not lock.take(name):
        _wait(deadline)


def _wait(deadline: float) -> None:
    remaining(deadline)
    time.sleep(POLL_INTERVAL)


def _take_core(lock: "_Name", cores: Sequence[int]) -> int | None:
    """Take the first free core, if the gate is open."""
    with _Name() as gate:
        free = cores if gate.take(_GATE) else ()
        return next((core for core in free if lock.take(f"{_CORE}{core}")), None)


class _Name(contextlib.ExitStack):
    """A name that one process of this machine can have at a time, until it lets go or ends."""

    def take(self, name: str) -> bool:
        """Take a name, if it is free."""
        with contextlib.ExitStack() as undo:
            lock = undo.enter_context(socket.socket(socket.AF_UNIX))
            try:
                lock.bind(f"\0{name}")
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
                # Only Linux has abstract addresses.
                path, flags = f"/tmp/{name}-{os.getuid()}", os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW
                try:
                    file = undo.enter_context(open(os.open(path, flags, 0o600)))
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    return False
            self.push(undo.pop_all())
        return True


def _signal_name(exit_code: int) -> str:
    try:
        return signal.Signals(-exit_code).name
    except ValueError:
        return f"signal {-exit_code}"


def _nameless(undo: contextlib.ExitStack) -> IO[bytes]:
    return undo.enter_context(tempfile.TemporaryFile())


def _content(file: IO[bytes]) -> bytes:
    """Return the content of a file, without moving its position."""
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def _describe(content: bytes | None) -> dict[str, Any] | None:
    """Return size, hash and beginning of an output; None if it is missing."""
    if content is None:
        return None
    digest, head = hashlib.sha256(content).hexdigest(), content[:HEAD].decode(errors="backslashreplace")
    return {"size": len(content), "sha256": digest, "head": head}
