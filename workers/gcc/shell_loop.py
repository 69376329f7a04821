"""What runs in a container: a process that ends it with its client, shells that carry out commands, and their end.

All are plain POSIX shell, for the shells of GNU systems and of busybox alike. A shell is told by a line that there is
a command in the file `command` of its folder, which it shares with the client; standard input, output and errors are
files there as well, so that nothing but a short line goes either way through the engine.
"""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

from aiocg.workers.gcc.place import ENVIRONMENT

__all__ = [
    "COMMAND",
    "ERRORS",
    "FILES",
    "INPUT",
    "KEEPER",
    "KILL",
    "LOOP",
    "OUTPUT",
    "Answer",
    "command_file",
    "mark",
    "read_answer",
]

COMMAND, INPUT, OUTPUT, ERRORS = "command", "input", "output", "errors"  # what a shell's folder has
FILES = COMMAND, INPUT, OUTPUT, ERRORS

# The container's first process. Its standard input ends when the client does, however that ends; then it ends, too, and
# the kernel with it all others in the container, at once. Meanwhile the shell waits, and so buries whatever has lost
# its parent. (Without the second command it would become `cat`, which buries nobody.)
KEEPER = "cat >/dev/null; exit 0"

# What a command has left when it has ended is a child of the first process then, beside its `cat`, and has its mark in
# its environment. Shells read a line byte by byte, but a file in blocks, and a command is long: hence a file.
# Processes that the kernel has killed for want of memory are counted in one of two places.
LOOP = r"""
refuse() {
    read -r turn # nothing is to be said before
    echo "there is no $1" >&2
    exit 1
}
command -v cat >/dev/null || refuse cat
cd "$1" 2>/dev/null || refuse "$1"
ulimit -c 0
counters=
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] && counters=$file
done
while read -r turn; do
    export RUN_OF_AIOCG="$1:$turn."
    . ./command &
    wait $!
    status=$?
    found=1
    while [ "$found" ]; do
        found= keeper= left=
        read -r keeper left </proc/1/task/1/children
        for pid in $left; do
            case $(cat "/proc/$pid/environ") in
                *"RUN_OF_AIOCG=$RUN_OF_AIOCG"*) kill -KILL "$pid" && found=1 ;;
            esac
        done
    done 2>/dev/null
    killed=0
    if [ "$status" != 0 ] && [ "$counters" ]; then
        while read -r key value; do
            [ "$key" = oom_kill ] && killed=$value
        done <"$counters"
    fi
    echo "$turn $status $killed"
done
"""


# Ends a command whose time is over, with all that it has started: whatever has its mark. Nobody starts a process for
# each command to watch over its time, as that takes as long as some commands do: the client starts this if it must.
KILL = r"""
found=1
while [ "$found" ]; do
    found=
    for process in /proc/[0-9]*; do
        case $(cat "$process/environ") in
            *"RUN_OF_AIOCG=$1"*) kill -KILL "${process#/proc/}" && found=1 ;;
        esac
    done
done 2>/dev/null
"""


def mark(folder: str, turn: int) -> str:
    """Return what all processes of a command have in their environment, by which `KILL` finds them."""
    return f"{folder}:{turn}."


class Answer(NamedTuple):
    """What a shell says of a command.

    Attributes:
        turn: the number that it was given.
        status: of the command's end, negative for a signal.
        killed: how many processes the kernel has ended here for want of memory, 0 if the command ended well.
    """

    turn: int
    status: int
    killed: int


def command_file(command: Sequence[str], folder: str, memory: int, file_size: int, stdin: bool) -> str:
    """Return what is to stand in a shell's file `command`.

    Args:
        command: program and arguments.
        folder: the working folder.
        memory: bytes of address space for each process.
        file_size: bytes that each file may have that is written.
        stdin: the file `input` is to be the standard input, which is empty otherwise.
    """
    return (
        f"exec <{INPUT if stdin else '/dev/null'} >{OUTPUT} 2>{ERRORS} || exit 126\n"
        f"ulimit -f {max(file_size // 512, 1)}\n"
        f"ulimit -v {max(memory // 1024, 1)}\n"
        f"cd {shlex.quote(folder)} || exit 126\n"
        f"export PWD={ENVIRONMENT['PWD']}\n"  # in which `cd` has put a name that is another one each time
        f"exec {shlex.join(command)}\n"
    )


def read_answer(line: bytes) -> Answer:
    """Read a line that a shell has written; statuses above 128 are those of signals.

    Raises:
        ValueError: when it is none.
    """
    turn, status, killed = map(int, line.split())
    return Answer(turn, 128 - status if status > 128 else status, killed)
