"""The interfaces through which the supervisor and the runtime start workers.

`aiocg.host.local` runs workers on this machine, `aiocg.cluster.machine` has nodes run them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from aiocg.transport.channels import RequestChannel
from aiocg.transport.messages import Reply
from aiocg.transport.status import Counts, Execution

if TYPE_CHECKING:
    from aiocg.registry import EnvironmentSpec


@dataclass(frozen=True, slots=True)
class Look:
    """What can be seen of a worker process from outside, at one moment.

    Attributes:
        sequence: changes with every operation of the worker.
        execution: what it is executing, with times on this process's monotonic clock; None if nothing.
        stopped: a signal such as SIGSTOP has stopped it.
        memory: resident bytes.
        unreachable: it listens, but nobody can connect any more.
        counts: its counters, None if they are unknown.
        lost: it is not known what became of it, because its machine is gone.
        leaving: it should be replaced by a worker elsewhere.
        machine: name of the machine where it runs, "" for this one.
    """

    sequence: int = 0
    execution: Execution | None = None
    stopped: bool = False
    memory: int = 0
    counts: Counts | None = None
    unreachable: bool = False
    lost: bool = False
    leaving: bool = False
    machine: str = ""


class WorkerProcess(Protocol):
    """One worker process, from its start to its death.

    Attributes:
        pid: process id on the machine where it runs.
    """

    pid: int

    def look(self) -> Look:
        """Return the latest look at the process; after its death, what it was executing when it died."""

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> RequestChannel:
        """Open a channel to the worker, which may not listen yet; the arguments are those of the channel."""

    def kill(self) -> None:
        """Kill the process and all its children; it may be dead already."""

    async def wait(self) -> int:
        """Wait for the end of the process and of its output; return its exit status, minus the signal if killed."""

    @property
    def stderr(self) -> str:
        """The last lines that the process wrote."""

    def close(self) -> None:
        """Free our resources for the dead process."""


class Launcher(Protocol):
    """Starts workers of one kind."""

    async def spawn(self) -> WorkerProcess:
        """Start a worker.

        Raises:
            OSError: if no process can be created now; the caller tries again.
            AiocgError: if none can ever be created; the caller gives up.
        """


class Machine(Protocol):
    """A machine that runs workers for a runtime."""

    @property
    def workers(self) -> int | None:
        """Default number of workers of each kind; None until it is known, at the latest with the first launcher."""

    async def launcher(self, spec: "EnvironmentSpec", options: Mapping[str, Any], memory_limit: int) -> Launcher:
        """Return what starts the workers of an environment.

        Args:
            spec: the environment.
            options: options for the compiler, in addition to the defaults.
            memory_limit: address space of each worker in bytes, 0 for no limit.
        """

    def stop(self) -> None:
        """Start no more workers: waiting calls raise `RuntimeClosed`. Existing workers live on."""

    async def close(self) -> None:
        """Free everything, after all workers have ended; idempotent."""
