"""Runs and times programs for a worker. A stand-alone script that uses only the standard library.

    runner.py STDIN STDOUT STDERR       the file descriptors for programs' standard files

It reads requests to run programs from its standard input, one JSON object per line, and replies to each with a JSON
object on a line; see `aiocg.workers.programs.execution`. It is small, so that the cost of starting a program does not
depend on the worker's memory. It adopts and ends processes that a program leaves behind. When its input closes, which
happens however the worker ends, it ends the running program and itself. In a box (see `aiocg.workers.programs.sandbox`)
it is process 1.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

SET_DEATH_SIGNAL, SET_DUMPABLE, SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVILEGES = 1, 4, 36, 38  # prctl
NAME = "program"  # the program's argv[0]; the file's name varies
STARTED = struct.Struct("<qi")  # start time in nanoseconds of the monotonic clock, and the error number of exec
WATCH = 0.1  # seconds between checks of a program's memory
LEFT = ("shm", "msg", "sem")  # System V objects, which outlive processes
UNKNOWN_LIMIT = () if hasattr(resource, "prlimit") else (ValueError,)  # macOS knows none of address space
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", lambda *_: None)
PROCESSES = "/proc" if os.path.isdir("/proc") else ""  # Linux's, too


def main() -> None:
    """Serve requests until the end of input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(SET_DUMPABLE, 0, 0, 0, 0)  # programs must not read or trace this process
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(*UNKNOWN_LIMIT):
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # the worker's limit does not apply to programs
    files = [int(number) for number in sys.argv[1:4]]
    before = _limits()
    with open(0, "rb", buffering=0) as requests, open(1, "wb", buffering=0) as answers:
        os.set_inheritable(requests.fileno(), False)
        os.set_inheritable(answers.fileno(), False)
        buffer = b""
        while chunk := requests.read(1 << 16):
            buffer += chunk
            while b"\n" in buffer:
                line, _, buffer = buffer.partition(b"\n")
                answer = _run(json.loads(line), requests.fileno(), files)
                answer["spent"] = os.getpid() == 1 and (_limits() != before or _left_behind())
                answers.write(json.dumps(answer).encode() + b"\n")


def _run(request: dict[str, Any], worker: int, files: Sequence[int]) -> dict[str, Any]:
    """Run a program to its end, its timeout, or the end of the worker, and report the result."""
    if not PROCESSES:
        del request["limits"]["RLIMIT_NPROC"]
    elif os.getpid() != 1:  # a box counts only its own threads
        request["limits"]["RLIMIT_NPROC"] += _count_tasks()
    reading, writing = os.pipe()
    runner, ends, program = os.getpid(), -1 if hasattr(os, "pidfd_open") else _told_of_children(), os.fork()
    if not program:
        _become(request, writing, runner, files)
    os.close(writing)
    started, problem = STARTED.unpack(os.read(reading, STARTED.size).ljust(STARTED.size, b"\0"))
    more = os.read(reading, STARTED.size)  # only if the program could not be executed
    os.close(reading)
    ended, stopped = _wait(program, ends, worker, request["timeout"], request["resident"])
    status = _end(program)
    if more:
        _, problem = STARTED.unpack(more)
    code = os.waitstatus_to_exitcode(status)
    seconds, told = max(0, ended - started) / 1e9, os.strerror(problem) if problem else ""
    return {"exit_code": code, "seconds": seconds, "stopped": stopped, "problem": told}


def _become(request: dict[str, Any], pipe: int, runner: int, files: Sequence[int]) -> NoReturn:
    """Turn this process, a fork of the runner, into the program; report the start time or error through the pipe."""
    try:
        os.setsid()
        prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != runner:  # the runner was killed before the death signal was set
            os._exit(127)
        prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        for number, file in enumerate(files):
            os.dup2(file, number)
        _close_others(pipe)
        for name, value in request["limits"].items():
            if hasattr(resource, name):
                _set_limit(getattr(resource, name), value)
        if request["cpu"] is not None and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, [request["cpu"]])
        os.chdir(request["folder"])
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python or by the runner
            signal.signal(number, signal.SIG_DFL)
        command = [NAME, *request["arguments"]]
        os.write(pipe, STARTED.pack(time.monotonic_ns(), 0))
        os.execve(request["executable"], command, request["environment"])
    except OSError as error:
        os.write(pipe, STARTED.pack(0, error.errno or errno.EIO))
    except BaseException:
        os.write(pipe, STARTED.pack(0, errno.EIO))
    os._exit(127)


def _close_others(pipe: int) -> None:
    """Close all files except the standard ones and one more, which closes on exec."""
    os.closerange(3, pipe)
    os.closerange(pipe + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _set_limit(limit: int, value: int) -> None:
    """Lower a limit to at most a value."""
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(*UNKNOWN_LIMIT):
        resource.setrlimit(limit, (value, value))


def _limits() -> list[tuple[int, int]]:
    """Return this process's own limits, which a program of the same user may change."""
    return [resource.getrlimit(limit) for limit in LIMITS]


def _count_tasks() -> int:
    """Count the threads of this user, to which the limit on processes applies."""
    count = 0
    for name in os.listdir(PROCESSES):
        with contextlib.suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _left_behind() -> bool:
    """Return whether the box has System V objects, which outlive processes."""
    for kind in LEFT:
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}") as table:
            if len(table.readlines()) > 1:  # the first line is the heading
                return True
    return False


def _told_of_children() -> int:
    """Return a descriptor that is readable once a child has ended, where there is none for a process."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    if (before := signal.set_wakeup_fd(writing)) >= 0:
        os.close(before)
    return reading


def _wait(program: int, ends: int, worker: int, timeout: float, resident: int) -> tuple[int, str]:
    """Wait for the end of a program; return its end time, and what it ran out of: time or memory."""
    process, stop = os.pidfd_open(program) if ends < 0 else ends, time.monotonic() + timeout
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        poll.register(worker, select.POLLHUP | select.POLLERR)
        while True:
            left = stop - time.monotonic()
            ready = {number for number, _ in poll.poll(max(0.0, min(left, WATCH)) * 1000)}
            ended = time.monotonic_ns()
            if process in ready:
                return ended, ""
            if ready:  # the worker has ended
                _end(program)
                sys.exit()
            if left <= WATCH:
                return ended, "time"
            if _memory_of(program) > resident:
                return ended, "memory"
    finally:
        os.close(process)


def _memory_of(program: int) -> int:
    """Return the memory in bytes of a program and its children, except those that left its session."""
    size = 0
    for name in os.listdir(PROCESSES) if PROCESSES else ():
        with contextlib.suppress(OSError):
            if name.isdecimal() and (os.getpid() == 1 or os.getsid(int(name)) == program):
                with open(f"/proc/{name}/statm") as file:
                    size += int(file.read().split()[1]) * resource.getpagesize()
    return size


def _end(program: int) -> int:
    """End a program and its children, and return its status."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # everything in the box
    try:
        os.killpg(program, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # the process group does not exist yet, or has ended
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    while orphans := _children():
        for orphan in orphans:  # kill all before waiting: they may be starting others
            os.kill(orphan, signal.SIGKILL)
        for orphan in orphans:
            os.waitpid(orphan, 0)
    return status


def _children() -> list[int]:
    """Return the adopted processes."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    main()
