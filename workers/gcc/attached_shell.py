"""A shell in a container that carries out one command at a time, and answers through the engine's socket."""

import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from aiocg.workers.gcc.place import Completed
from aiocg.workers.gcc.shell_loop import COMMAND, ERRORS, INPUT, OUTPUT, Answer, command_file, mark, read_answer

__all__ = ["AttachedShell", "Kills", "ShellLost"]

FILE_LIMIT = 1 << 30  # bytes of each file that a command writes, its outputs among them
OUTPUT_LIMIT = 16 << 20  # bytes of each output that are kept
GRACE = 15.0  # seconds that an answer may come later than the time of a command allows
AGAIN = 1.0  # seconds between two attempts to end a command: the first may have come before it had begun

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
        folder: its own, as it is called over there.
        files: its `FILES`, opened; they stay so, that nothing that runs over there can have us open something else.
        kills: what the container's shells know together.
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
        self,
        command: Sequence[str],
        folder: str,
        timeout: float,
        stdin: bytes,
        memory: int,
        kill: Callable[[str], object],
    ) -> Completed:
        """Run a command to its end, or that of its time; see `Place.run`.

        Args:
            command, folder, timeout, stdin, memory: see there.
            kill: ends all processes over there that have a mark; it may fail.

        Raises:
            ShellLost: when no answer comes; the shell is of no use any more.
            OSError: when the command cannot be written down.
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

    def _ask(self, timeout: float, kill: Callable[[str], object]) -> tuple[Answer, bool]:
        """Have the command carried out, and return the answer, and whether it has come in time."""
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
        """Return the next line, None when it does not come until then; what there is of it is kept."""
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
        """Have so many bytes in `_pieces`, if they come until then."""
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
