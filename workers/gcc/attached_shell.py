"""A shell in a container that carries out one command at a time, and answers through the engine's socket."""

import os
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence

from aiocg.workers.gcc.place import Completed
from aiocg.workers.gcc.shell_loop import COMMAND, ERRORS, INPUT, OUTPUT, Answer, command_file, read_answer

__all__ = ["AttachedShell", "Kills", "ShellLost"]

FILE_LIMIT = 1 << 30  # bytes of each file that a command writes, its outputs among them
OUTPUT_LIMIT = 16 << 20  # bytes of each output that are kept
GRACE = 15.0  # seconds that an answer may come later than `timeout` allows

_HEADER = struct.Struct(">BxxxL")  # before each piece of output: which one, 1 or 2, and how many bytes
_ERRORS = 2
_LONGEST_ANSWER = 100  # bytes; what runs over there may write there, too
_KILLED, _FILE_TOO_LARGE = -9, -25


class Kills:
    """How many processes of a container the kernel has killed for want of memory, as its shells have told."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def are_more(self, count: int) -> bool:
        """Take a count, and say whether it is higher than all before."""
        with self._lock:
            more, self._count = count > self._count, max(count, self._count)
            return more


class ShellLost(Exception):
    """A shell does not answer any more; the message says what is known of it."""


class AttachedShell:
    """A shell that runs `shell_loop.LOOP`, for one thread at a time.

    Args:
        stream: the engine's connection to it, whose pieces have headers.
        files: its `FILES`, opened; they stay so, that nothing that runs over there can have us open something else.
        kills: what the container's shells know together.
    """

    def __init__(self, stream: socket.socket, files: Mapping[str, int], kills: Kills) -> None:
        self._stream = stream
        self._kills = kills
        self._turn = 0
        self._complaints = b""
        self._pieces = b""
        self._files = dict(files)

    def run(self, command: Sequence[str], folder: str, timeout: float, stdin: bytes, memory: int) -> Completed:
        """Run a command to its end, or that of its time; see `Place.run`.

        Raises:
            ShellLost: when no answer comes; the shell is of no use any more.
            OSError: when the command cannot be written down.
        """
        self._write(COMMAND, command_file(command, folder, timeout, memory, FILE_LIMIT, bool(stdin)).encode())
        if stdin:
            self._write(INPUT, stdin)
        self._turn += 1
        started = time.monotonic()
        answer = self._ask(timeout + GRACE)
        seconds = time.monotonic() - started
        output, errors = (os.pread(self._files[name], OUTPUT_LIMIT, 0) for name in (OUTPUT, ERRORS))
        done = Completed(answer.status, output, errors, seconds)
        out_of_memory = self._kills.are_more(answer.killed)
        if answer.status == _KILLED and seconds >= timeout:
            return done._replace(stopped="timeout")
        if out_of_memory and (answer.status == _KILLED or b"Killed" in errors):  # it, or what it had started
            return done._replace(stopped="memory")
        return done._replace(stopped="output") if answer.status == _FILE_TOO_LARGE else done

    def close(self) -> None:
        """Leave the shell, which ends when it has done what it does; idempotent."""
        self._stream.close()
        files, self._files = self._files, {}
        for descriptor in files.values():
            os.close(descriptor)

    def _write(self, name: str, content: bytes) -> None:
        os.ftruncate(self._files[name], 0)
        written = 0
        while written < len(content):
            written += os.pwrite(self._files[name], content[written:], written)

    def _ask(self, timeout: float) -> Answer:
        try:
            self._stream.settimeout(timeout)
            self._stream.sendall(b"%d\n" % self._turn)
            line = self._read_line(time.monotonic() + timeout)
            answer = read_answer(line)
        except TimeoutError:
            raise ShellLost(f"no answer came within {timeout:g} s") from None
        except (OSError, ValueError) as error:
            raise ShellLost(str(error)) from None
        if answer.turn != self._turn:
            raise ShellLost(f"the answer {line!r} is for another command than {self._turn}")
        return answer

    def _read_line(self, deadline: float) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            kind, size = _HEADER.unpack(self._read(_HEADER.size, deadline))
            piece = self._read(size, deadline)
            if kind == _ERRORS:
                self._complaints = (self._complaints + piece)[-1000:]
            else:
                line += piece
            if len(line) > _LONGEST_ANSWER:
                raise ValueError("it says more than an answer is")
        return line

    def _read(self, size: int, deadline: float) -> bytes:
        while len(self._pieces) < size:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._stream.settimeout(left)
            more = self._stream.recv(65536)
            if not more:
                raise OSError(self._complaints.decode(errors="replace").strip() or "its output has ended")
            self._pieces += more
        piece, self._pieces = self._pieces[:size], self._pieces[size:]
        return piece
