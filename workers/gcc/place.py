"""Where a compiler runs: on this machine, or in a container."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

__all__ = ["ENVIRONMENT", "Completed", "Place"]

# Of each command, beside PATH and a folder for temporary files: the same words, the same date, and the same name of the
# working folder, which is another one each time, in whatever a compiler writes.
ENVIRONMENT = {"LC_ALL": "C", "SOURCE_DATE_EPOCH": "0", "PWD": "/proc/self/cwd"}


class Completed(NamedTuple):
    """How a command ended.

    Attributes:
        status: its exit status, negative for a signal.
        output, errors: the beginning of its standard output and standard error.
        seconds: how long it took, as seen from here.
        stopped: why it was ended, "" if it ended by itself.
    """

    status: int
    output: bytes
    errors: bytes
    seconds: float
    stopped: Literal["", "timeout", "memory", "output"] = ""


class Place(Protocol):
    """Runs commands of one compiler in folders of this machine; its methods may be called from several threads.

    Attributes:
        name: what the user calls the compiler, such as `gcc-12` or `docker:gcc:13`, for messages.
        compiler: the word that stands for the compiler in a command, such as `/usr/bin/gcc-12`.
        identity: changes when the compiler does: paths with size and time of the files, or the id of an image.
        root: the folder below which there must be all that commands read and write.
        is_apart: commands see nothing of this machine but `root`. What else they read, `identity` changes with.
        memory: bytes that a process can have at most, whatever it is given.
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
        """Run a command in a folder, to its end or that of its time, and end whatever it leaves behind.

        Args:
            command: program and arguments; no shell reads them.
            folder: the working folder, below `root`; relative names in the command are relative to it.
            timeout: seconds.
            stdin: the content of its standard input.
            memory: bytes of memory that each of its processes may have, 0 for the place's own limit.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when commands cannot be run here any more, even after an
                attempt to set the place up anew; the message says why.
        """

    def close(self) -> None:
        """Free what the place holds; idempotent. It also goes when this process does, however that ends."""
