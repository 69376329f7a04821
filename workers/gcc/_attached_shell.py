"""The shells in a container: their scripts, and running one command at a time through the engine's socket.

All are POSIX shell, for GNU systems and busybox alike. A line notifies a shell of a command in the file `command` of
its folder, which it shares with the client; standard input, output and error are files there as well, so that only
short lines pass through the engine.
"""

import os
import shlex
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from aiocg.workers.gcc._runner import ENVIRONMENT, Completed

COMMAND, INPUT, OUTPUT, ERRORS = "command", "input", "output", "errors"  # the files in a shell's folder
FILES = COMMAND, INPUT, OUTPUT, ERRORS

# The container's first process. Its standard input closes when the client ends, however that happens; then it ends,
# too, and the kernel kills all other processes in the container at once. Until then the shell waits, and so reaps
# orphans. (Without the second command it would become `cat`, which reaps none.)
KEEPER = "cat >/dev/null; exit 0"

LOOP = Path(__file__).with_name("loop.sh").read_text()
"""A shell that runs commands; its argument is its folder."""

KILL = Path(__file__).with_name("kill.sh").read_text()
"""Kills all processes with a mark, which is its argument."""


def mark(folder: str, turn: int) -> str:
    """Return the mark in the environment of a command's processes, by which `KILL` finds them."""
    return f"{folder}:{turn}."


class Answer(NamedTuple):
    """A shell's report on a command.

    Attributes:
        turn: the number of the command.
        status: exit status, negative for a signal.
        killed: the container's count of out-of-memory kills; 0 if the command succeeded.
    """

    turn: int
    status: int
    killed: int


def command_file(command: Sequence[str], folder: str, memory: int, file_size: int, stdin: bool) -> str:
    """Return the content of a shell's file `command`.

    Args:
        command: program and arguments.
        folder: the working folder.
        memory: bytes of address space for each process.
        file_size: the limit on each written file, in bytes.
        stdin: whether standard input is the file `input`; otherwise it is empty.
    """
    return (
        f"exec <{INPUT if stdin else '/dev/null'} >{OUTPUT} 2>{ERRORS} || exit 126\n"
        f"ulimit -f {max(file_size // 512, 1)}\n"
        f"ulimit -v {max(memory // 1024, 1)}\n"
        f"cd {shlex.quote(folder)} || exit 126\n"
        f"export PWD={ENVIRONMENT['PWD']}\n"  # replaces the varying name that `cd` has set
        f"exec {shlex.join(command)}\n"
    )


def read_answer(line: bytes) -> Answer:
    """Parse a line from a shell; statuses above 128 are signals.

    Raises:
        ValueError: if it is not a report.
    """
    turn, status, killed = map(int, line.split())
    return Answer(turn, 128 - status if status > 128 else status, killed)


FILE_LIMIT = 1 << 30  # bytes of each file that a command writes, including its outputs
OUTPUT_LIMIT = 16 << 20  # limit in bytes for each output
GRACE = 15.0  # seconds that a reply may come after a command's timeout
AGAIN = 1.0  # seconds between attempts to kill a command, which may not have started at the first one

_HEADER = struct.Struct(">BxxxL")  # header of each piece of output: the stream, 1 or 2, and its bytes
_ERRORS = 2
_LONGEST_ANSWER = 100  # bytes; commands in the container may write to the stream, too
_KILLED, _FILE_TOO_LARGE = -9, -25


class Kills:
    """The container's count of out-of-memory kills, as reported by its shells."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def are_more(self, count: int) -> bool:
        """Record a count; return whether it exceeds all earlier ones."""
        with self._lock:
            more, self._count = count > self._count, max(count, self._count)
            return more


Kill = Callable[[str], object]  # ends the command with a mark


class ShellLost(Exception):
    """The shell stopped replying; the message says what is known about it."""


class AttachedShell:
    """A shell that runs `shell_loop.LOOP`, for one thread at a time.

    Args:
        stream: the engine's connection to it, whose pieces have headers.
        folder: the shell's folder, as named inside the container.
        files: its `FILES`, kept open, so that code in the container cannot redirect them.
        kills: the count shared by the container's shells.
    """

    def __init__(self, stream: socket.socket, folder: str, files: Mapping[str, int], kills: Kills) -> None:
        self._stream = stream
        self._folder = folder
        self._kills = kills
        self._turn = 0
        self._complaints = b""
        self._pieces = b""
        self._line = b""
        self._files = dict(files)

    def run(
        self, command: Sequence[str], folder: str, timeout: float, stdin: bytes, memory: int, kill: Kill
    ) -> Completed:
        """Run a command to its end or timeout; see `CommandRunner.run`.

        Args:
            command, folder, timeout, stdin, memory: see there.
            kill: kills all processes in the container that carry a mark; may fail.

        Raises:
            ShellLost: if no reply arrives; the shell is then unusable.
            OSError: if the command file cannot be written.
        """
        self._write(COMMAND, command_file(command, folder, memory, FILE_LIMIT, bool(stdin)).encode())
        if stdin:
            self._write(INPUT, stdin)
        self._turn += 1
        started = time.monotonic()
        answer, in_time = self._ask(max(timeout, 0.0), kill)
        seconds = time.monotonic() - started
        output, errors = (os.pread(self._files[name], OUTPUT_LIMIT, 0) for name in (OUTPUT, ERRORS))
        done = Completed(answer.status, output, errors, seconds)
        out_of_memory = self._kills.are_more(answer.killed)
        if answer.status == _KILLED and not in_time:
            return done._replace(stopped="timeout")
        if out_of_memory and (answer.status == _KILLED or b"Killed" in errors):  # the command or one of its children
            return done._replace(stopped="memory")
        return done._replace(stopped="output") if answer.status == _FILE_TOO_LARGE else done

    def close(self) -> None:
        """Close the connection; the shell ends after its current command. Idempotent."""
        self._stream.close()
        files, self._files = self._files, {}
        for descriptor in files.values():
            os.close(descriptor)

    def _write(self, name: str, content: bytes) -> None:
        os.ftruncate(self._files[name], 0)
        written = 0
        while written < len(content):
            written += os.pwrite(self._files[name], content[written:], written)

    def _ask(self, timeout: float, kill: Kill) -> tuple[Answer, bool]:
        """Run the command; return the reply and whether it arrived in time."""
        in_time = True
        deadline = time.monotonic() + timeout
        last = deadline + GRACE
        try:
            self._stream.settimeout(GRACE)
            self._stream.sendall(b"%d\n" % self._turn)
            while (line := self._read_line(deadline)) is None:
                if deadline >= last:
                    raise ShellLost(f"no answer came within {timeout + GRACE:g} s")
                in_time = False
                kill(mark(self._folder, self._turn))
                deadline = min(time.monotonic() + AGAIN, last)
            answer = read_answer(line)
        except (OSError, ValueError) as error:
            raise ShellLost(str(error)) from None
        if answer.turn != self._turn:
            raise ShellLost(f"the answer {line!r} is for another command than {self._turn}")
        return answer, in_time

    def _read_line(self, deadline: float) -> bytes | None:
        """Return the next line, or None at the deadline; a partial line is kept."""
        while not self._line.endswith(b"\n"):
            piece = self._read_piece(deadline)
            if piece is None:
                return None
            kind, content = piece
            if kind == _ERRORS:
                self._complaints = (self._complaints + content)[-1000:]
            else:
                self._line += content
            if len(self._line) > _LONGEST_ANSWER:
                raise ValueError("it says more than an answer is")
        line, self._line = self._line, b""
        return line

    def _read_piece(self, deadline: float) -> tuple[int, bytes] | None:
        if not self._fill(_HEADER.size, deadline):
            return None
        kind, size = _HEADER.unpack_from(self._pieces)
        end = _HEADER.size + size
        if not self._fill(end, deadline):
            return None
        content, self._pieces = self._pieces[_HEADER.size : end], self._pieces[end:]
        return kind, content

    def _fill(self, size: int, deadline: float) -> bool:
        """Read until `_pieces` holds this many bytes or the deadline passes."""
        while len(self._pieces) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._stream.settimeout(left)
            try:
                more = self._stream.recv(65536)
            except TimeoutError:
                return False
            if not more:
                raise OSError(self._complaints.decode(errors="replace").strip() or "its output has ended")
            self._pieces += more
        return True
