"""How a worker process ended, and whether its request is to blame."""

from dataclasses import dataclass

from aiocg.errors import DeadlineExceeded, ServiceError, WorkerCrashed
from aiocg.transport.status import Execution

__all__ = ["Death"]


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker process ended.

    Attributes:
        cause: the cause in a few words.
        execution: what it was executing, None if nothing.
        outside: the death is no evidence against what was executing, e.g. `kill -9` by someone else.
        overrun: the timeout in seconds that was overrun, if it was killed for that.
        cancelled: it was killed because nobody waited any more for what it was executing.
        stalled: it was killed because it made no progress, for example because it was stopped.
        explained: the cause of the death is known to lie outside the worker.
        stderr: the last lines it wrote.
    """

    cause: str
    execution: Execution | None
    outside: bool
    overrun: float | None = None
    cancelled: bool = False
    stderr: str = ""
    stalled: bool = False
    explained: bool = True

    @property
    def is_mystery(self) -> bool:
        """Did it die idle, without a known cause?"""
        return self.execution is None and not self.explained

    @property
    def is_crash(self) -> bool:
        """Did it end by itself, which may be the late effect of an earlier request?"""
        return self.is_mystery or not (self.outside or self.overrun is not None)

    def error(self, doing: str) -> ServiceError:
        """Return the error for the request that is blamed; `doing` says what the request was to do."""
        if self.overrun is not None:
            return DeadlineExceeded(self.overrun, doing, self.stderr)
        return WorkerCrashed(self.cause, doing, self.stderr)
