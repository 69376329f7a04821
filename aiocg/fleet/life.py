"""One process in a worker slot, and what its end says."""

from dataclasses import dataclass

from aiocg.fleet.death import Death
from aiocg.fleet.supervision import KillReason, describe_death, is_explained, is_outside_kill
from aiocg.host.launcher import WorkerProcess
from aiocg.transport.messages import Refused
from aiocg.transport.status import Execution


@dataclass(slots=True, eq=False)
class Life:
    """One process in a slot.

    Attributes:
        refusal: its answer to the hello, if that was a refusal.
        condemned: the execution that it was killed for.
        unwanted: number of a request that it executes for nobody, and since when.
    """

    process: WorkerProcess
    refusal: Refused | None = None
    condemned: Execution | None = None
    unwanted: tuple[int, float] | None = None

    def death(self, return_code: int, reason: KillReason | None) -> Death:
        """Return what the end of the process says.

        Args:
            return_code: as in `subprocess`.
            reason: why the supervisor killed it, None if it did not.
        """
        execution, overrun, cancelled = self.process.look().execution, None, False
        outside = is_outside_kill(return_code, reason)
        if reason is KillReason.DEADLINE:
            condemned = self.condemned
            assert condemned is not None
            overrun = condemned.deadline - condemned.started
            outside = execution is None or not execution.is_same(condemned)  # the request finished just in time
        elif reason is KillReason.CANCELLED:
            cancelled = execution is not None and self.condemned is not None and execution.is_same(self.condemned)
            execution = execution if cancelled else None  # a later request is not to blame
        return Death(
            describe_death(return_code, reason),
            execution,
            outside,
            None if outside else overrun,
            cancelled,
            self.process.stderr,
            stalled=reason is KillReason.STALLED,
            explained=is_explained(reason, outside=outside, executing=execution is not None),
        )
