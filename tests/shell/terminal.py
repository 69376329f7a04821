"""A terminal for tests: a command on a pseudo-terminal, what it writes, and what is typed."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_CONTROL = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>()][0-9A-B]?)|\r")


class Terminal:
    """A command on a terminal of 40 lines and 120 columns.

    Attributes:
        process: the command.
        text: all that it has written so far, without control sequences.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", descriptor: int) -> None:
        self.process = process
        self.text = ""
        self._descriptor = descriptor
        self._seen = 0

    def type(self, keys: str) -> None:
        """Press keys; "\\r" is Enter, "\\x03" Ctrl-C, "\\x04" Ctrl-D."""
        os.write(self._descriptor, keys.encode())

    def wait_for(self, pattern: str, seconds: float = 60.0) -> str:
        """Wait until something matches behind what matched before, and return it."""
        end = time.monotonic() + seconds
        while (found := re.compile(pattern).search(self.text, self._seen)) is None:
            left = end - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"{pattern!r} did not come; what came: {self.text[self._seen :]!r}")
        self._seen = found.end()
        return found[0]

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for the end of the command and return its exit status."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self._read(0.1)
        return self.process.wait(1.0)

    def _read(self, seconds: float) -> bool:
        """Read what there is, waiting a while; return whether there can be more."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return True
        try:
            chunk = os.read(self._descriptor, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            return False
        if b"\x1b[6n" in chunk:  # the question where the cursor is, which a terminal answers
            os.write(self._descriptor, b"\x1b[1;1R")
        self.text += _CONTROL.sub("", chunk.decode(errors="replace"))
        return bool(chunk)


def _take_terminal() -> None:
    """Make standard input the terminal that this process belongs to: Ctrl-C and hanging up become signals."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests run by `nohup` ignore it, and so would what they start


@contextlib.contextmanager
def terminal(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Run a command on a terminal; it is killed if it has not ended by the end of the block."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    variables = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**variables, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
