"""The interface for running a compiler's commands, on this machine or in a container."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

# The environment of each command, besides PATH and a folder for temporary files. It makes compiler output reproducible:
# a fixed locale, a fixed date, and a fixed name for the working folder, which differs each time.
ENVIRONMENT = {"LC_ALL": "C", "SOURCE_DATE_EPOCH": "0", "PWD": "/proc/self/cwd"}


class Completed(NamedTuple):
    """How a command ended.

    Attributes:
        status: its exit status, negative for a signal.
        output, errors: its standard output and standard error, truncated.
        seconds: wall time.
        stopped: why it was killed; "" if it ended by itself.
    """

    status: int
    output: bytes
    errors: bytes
    seconds: float
    stopped: Literal["", "timeout", "memory", "output"] = ""


class CommandRunner(Protocol):
    """Runs commands of one compiler in folders of this machine; its methods may be called from several threads.

    Attributes:
        name: the user's name for the compiler, such as `gcc-12` or `docker:gcc:13`, for messages.
        compiler: the compiler's name in commands, such as `/usr/bin/gcc-12`.
        identity: changes with the compiler: paths with size and time of files, or the id of an image.
        root: the folder for all files that commands read and write.
        is_apart: whether commands see only `root` of this machine; `identity` then covers all other files that they
            read.
        memory: upper limit for each process, in bytes.
    """

    name: str
    compiler: str
    identity: str
    root: str
    is_apart: bool
    memory: int

    def run(
        self, command: Sequence[str], *, folder: str, timeout: float, stdin: bytes = b"", memory: int = 0
    ) -> Completed:
        """Run a command in a folder until it ends or times out, and kill whatever it leaves behind.

        Args:
            command: program and arguments, without a shell.
            folder: the working folder, below `root`; relative names in the command are relative to it.
            timeout: the time limit in seconds.
            stdin: the content of its standard input.
            memory: the memory limit of each of its processes in bytes; 0 for the runner's own limit.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if commands can no longer be run here, even after an attempt
                to restart; the message says why.
        """

    def close(self) -> None:
        """Free all resources; idempotent. They are also freed when this process ends, however it ends."""
