"""The scripts in a container: a keeper that ends it with its client, and shells that run and kill commands.

All are POSIX shell, for GNU systems and busybox alike. A line notifies a shell of a command in the file `command` of
its folder, which it shares with the client; standard input, output and error are files there as well, so that only
short lines pass through the engine.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from aiocg.workers.gcc._runner import ENVIRONMENT

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
