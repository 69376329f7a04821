"""Runs programs for a worker and times them. A script in a process of its own, with only the standard library.

    runner.py STDIN STDOUT STDERR       the numbers of open files that programs have as their standard ones

It reads a JSON object a line from its standard input, each a program to run, and answers each with a JSON object on a
line; see `aiocg.workers.programs.execution`. It is small, so that starting a program from it costs the same whatever
the worker has in memory; it adopts what a program leaves behind, and ends it; and when its input closes, which happens
however the worker ends, it ends what runs and itself. In a box (see `aiocg.workers.programs.sandbox`) it is process 1.
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
NAME = "program"  # that a program is told it has: the file's own is another every time
STARTED = struct.Struct("<qi")  # nanoseconds of the monotonic clock, and why it could not be started
WATCH = 0.1  # seconds between two looks at the memory of a program
LEFT = ("shm", "msg", "sem")  # what System V's calls make outlives the process that called
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(SET_DUMPABLE, 0, 0, 0, 0)  # no program may look into this process, or trace it
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))  # the worker's own limit is none of programs
    files = [int(number) for number in sys.argv[1:4]]
    before = limits()
    with open(0, "rb", buffering=0) as requests, open(1, "wb", buffering=0) as answers:
        os.set_inheritable(requests.fileno(), False)
        os.set_inheritable(answers.fileno(), False)
        buffer = b""
        while chunk := requests.read(1 << 16):
            buffer += chunk
            while b"\n" in buffer:
                line, _, buffer = buffer.partition(b"\n")
                answer = run(json.loads(line), requests.fileno(), files)
                answer["spent"] = os.getpid() == 1 and (limits() != before or left_behind())
                answers.write(json.dumps(answer).encode() + b"\n")


def run(request: dict[str, Any], worker: int, files: Sequence[int]) -> dict[str, Any]:
    """Run one program to its end, or to that of its time or of the worker, and say how it ended."""
    request["limits"]["RLIMIT_NPROC"] += 0 if os.getpid() == 1 else count_tasks()  # a box counts its own ones only
    reading, writing = os.pipe()
    runner, program = os.getpid(), os.fork()
    if not program:
        become(request, writing, runner, files)
    os.close(writing)
    started, problem = STARTED.unpack(os.read(reading, STARTED.size).ljust(STARTED.size, b"\0"))
    more = os.read(reading, STARTED.size)  # there is more only if the program could not be executed
    os.close(reading)
    ended, stopped = wait(program, worker, request["timeout"], request["resident"])
    status = end(program)
    if more:
        _, problem = STARTED.unpack(more)
    code = os.waitstatus_to_exitcode(status)
    return {
        "exit_code": code,
        "seconds": max(0, ended - started) / 1e9,
        "stopped": stopped,
        "problem": os.strerror(problem) if problem else "",
    }


def become(request: dict[str, Any], pipe: int, runner: int, files: Sequence[int]) -> NoReturn:
    """Turn this process, a copy of the runner, into the program; tell through the pipe when, or why not."""
    try:
        os.setsid()
        libc.prctl(SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != runner:  # it was killed before it could take us along
            os._exit(127)
        libc.prctl(SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        for number, file in enumerate(files):
            os.dup2(file, number)
        close_others(pipe)
        for name, value in request["limits"].items():
            set_limit(getattr(resource, name), value)
        if request["cpu"] is not None:
            os.sched_setaffinity(0, [request["cpu"]])
        os.chdir(request["folder"])
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, or we do
            signal.signal(number, signal.SIG_DFL)
        command = [NAME, *request["arguments"]]
        os.write(pipe, STARTED.pack(time.monotonic_ns(), 0))
        os.execve(request["executable"], command, request["environment"])
    except OSError as error:
        os.write(pipe, STARTED.pack(0, error.errno or errno.EIO))
    except BaseException:
        os.write(pipe, STARTED.pack(0, errno.EIO))
    os._exit(127)


def close_others(pipe: int) -> None:
    """Close all open files but the standard ones and one more, which closes when another program is executed."""
    os.closerange(3, pipe)
    os.closerange(pipe + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def set_limit(limit: int, value: int) -> None:
    """Lower a limit to a value, unless it is lower already."""
    _, hard = resource.getrlimit(limit)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(limit, (value, value))


def limits() -> list[tuple[int, int]]:
    """Return this process's own limits: a program of the same user may change them."""
    return [resource.getrlimit(limit) for limit in LIMITS]


def count_tasks() -> int:
    """Count the threads of this user, which the limit on processes counts."""
    count = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def left_behind() -> bool:
    """Say whether there is something in the box that outlives processes and is no file."""
    for kind in LEFT:
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}") as table:
            if len(table.readlines()) > 1:  # the first says what is in the columns
                return True
    return False


def wait(program: int, worker: int, timeout: float, resident: int) -> tuple[int, str]:
    """Wait for the end of a program and return when that was, and what it has run out of instead: time or memory."""
    process, stop = os.pidfd_open(program), time.monotonic() + timeout
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
            if ready:  # the worker is gone
                end(program)
                sys.exit()
            if left <= WATCH:
                return ended, "time"
            if memory_of(program) > resident:
                return ended, "memory"
    finally:
        os.close(process)


def memory_of(program: int) -> int:
    """Return the bytes of memory that a program has with all that it has started, but for what leaves its session."""
    size = 0
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdecimal() and (os.getpid() == 1 or os.getsid(int(name)) == program):
                with open(f"/proc/{name}/statm") as file:
                    size += int(file.read().split()[1]) * resource.getpagesize()
    return size


def end(program: int) -> int:
    """End a program with all that it has started, and return its status."""
    if os.getpid() == 1:
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # all that is in the box, at once
    try:
        os.killpg(program, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # it has not come to have a group of its own, or all of it is gone
        with contextlib.suppress(ProcessLookupError):
            os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    while orphans := children():
        for orphan in orphans:  # all of them before any is waited for: they may be starting others
            os.kill(orphan, signal.SIGKILL)
        for orphan in orphans:
            os.waitpid(orphan, 0)
    return status


def children() -> list[int]:
    """Return the processes that were adopted."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    main()
