"""Records a command on a terminal as a picture: `python -m bench.recording [FILE.svg [COMMAND...]]`.

Without arguments that is docs/search.svg, of a search.
"""

import os
import pty
import shlex
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from bench.terminal import recording

PLACE, COMMAND = "docs/search.svg", ("aiocg", "search", "programs-v0/qsort")
ROWS, COLUMNS = 40, 100
TYPING = 0.05  # seconds for a key


def record(command: Sequence[str]) -> list[tuple[float, str]]:
    """Run a command on a terminal of its own; return what it wrote, and after how many seconds.

    Raises:
        OSError: when there is no such command.
        ValueError: when it fails.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        try:
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    termios.tcsetwinsize(terminal, (ROWS, COLUMNS))
    started, chunks = time.monotonic(), list[tuple[float, bytes]]()
    while True:
        try:
            data = os.read(terminal, 1 << 16)
        except OSError:  # Linux's end of a terminal that nobody writes to
            data = b""
        if not data:
            break
        chunks.append((time.monotonic() - started, data))
    os.close(terminal)
    if status := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise ValueError(f"{shlex.join(command)} ended with {status}: {b''.join(data for _, data in chunks).decode()}")
    return [(seconds, data.decode(errors="replace")) for seconds, data in chunks]


def typed(command: Sequence[str]) -> list[tuple[float, str]]:
    """Return a command as somebody types it, after a prompt."""
    keys = [(0.0, "\x1b[32m$\x1b[0m "), *((TYPING * place, key) for place, key in enumerate(shlex.join(command), 1))]
    return [*keys, (keys[-1][0] + 0.4, "\r\n")]


def main() -> None:
    """Write the picture."""
    place, command = (sys.argv[1] if len(sys.argv) > 1 else PLACE), tuple(sys.argv[2:]) or COMMAND
    keys = typed(command)
    chunks = [*keys, *((keys[-1][0] + seconds, text) for seconds, text in record(command))]
    Path(place).write_text(recording(chunks, shlex.join(command), COLUMNS), encoding="utf-8")
    print(place)


if __name__ == "__main__":
    main()
