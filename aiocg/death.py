"""How a worker process ended, and what that means for the request that it was executing."""

from dataclasses import dataclass

from aiocg.errors import DeadlineExceeded, ServiceError, WorkerCrashed
from aiocg.transport.status import Execution

__all__ = ["Death"]


@dataclass(frozen=True, slots=True)
class Death:
    """How a worker process ended.

    Attributes:
        cause: in a few words.
        execution: what it was executing, None if nothing.
        outside: True when the death is no evidence against what was executing, e.g. `kill -9` by someone else.
        overrun: the deadline in seconds that was overrun, if that is why it was killed.
        cancelled: it was killed because nobody waited any more for what it was executing.
        stderr: last lines it wrote.
    """

    cause: str
    execution: Execution | None
    outside: bool
    overrun: float | None = None
    cancelled: bool = False
    stderr: str = ""

    def error(self, doing: str) -> ServiceError:
        """Return the error of the request that is held responsible, which was to do that."""
        if self.overrun is not None:
            return DeadlineExceeded(self.overrun, doing, self.stderr)
        return WorkerCrashed(self.cause, doing, self.stderr)
