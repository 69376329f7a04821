"""Where workers come from: what the supervisor and the runtime need of a place that can run them.

`aiocg.local` runs workers on this machine, `aiocg.node.client` has a node run them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply
from aiocg.transport.status import Counts, Execution

if TYPE_CHECKING:
    from aiocg.registry import EnvironmentSpec

__all__ = ["Launcher", "Look", "Place", "WorkerProcess"]


@dataclass(frozen=True, slots=True)
class Look:
    """What is to be seen of a worker process from outside, at one moment.

    Attributes:
        sequence: changes with every operation of the worker.
        execution: what it executes, with times on this process's monotonic clock; None when nothing.
        stopped: a signal such as SIGSTOP has stopped it.
        memory: resident bytes.
        unreachable: it listens, but where nobody can connect any more.
        counts: what it has done; None where nobody can tell.
    """

    sequence: int = 0
    execution: Execution | None = None
    stopped: bool = False
    memory: int = 0
    counts: Counts | None = None
    unreachable: bool = False


class WorkerProcess(Protocol):
    """One worker process, from its start to its death.

    Attributes:
        pid: process id, on the machine where it runs.
    """

    pid: int

    def look(self) -> Look:
        """Return what is to be seen of the process now, or was last; after its death, what it was executing then."""

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet; the arguments are those of the channel."""

    def kill(self) -> None:
        """End the process and all its children at once; it may be dead already."""

    async def wait(self) -> int:
        """Wait for the end of the process and its last words; return its exit status, minus the signal if killed."""

    @property
    def stderr(self) -> str:
        """The last lines that the process wrote."""

    def close(self) -> None:
        """Free what belongs to the dead process on our side."""


class Launcher(Protocol):
    """Starts workers of one kind."""

    async def spawn(self) -> WorkerProcess:
        """Start a worker.

        Raises:
            OSError: when no process can be made now; it is tried again.
            AiocgError: when none will ever be; the workers are given up.
        """


class Place(Protocol):
    """A machine on which workers run for a runtime."""

    @property
    def workers(self) -> int | None:
        """How many workers of a kind to start where nobody says; known once there is a launcher."""

    async def launcher(self, spec: "EnvironmentSpec", options: Mapping[str, Any], memory_limit: int) -> Launcher:
        """Return what starts the workers of an environment.

        Args:
            spec: of the environment.
            options: for the compiler, in addition to what it gets by default.
            memory_limit: address space of each worker in bytes, 0 for no limit.
        """

    def stop(self) -> None:
        """Start no more workers: whoever waits for one gets `RuntimeClosed`. Those that there are live on."""

    async def close(self) -> None:
        """Free everything, once all workers are gone; idempotent."""
