"""Decides what happens to a worker: a pure state machine, events in and commands out, the clock an argument.

States of one worker slot::

    STARTING --ready--> READY --died--> WAITING --time--> STARTING
        |                 |  \\
        |                 |   kill (deadline, stall, memory, stopped) --> DYING --died--> WAITING
        +--died, refused too often--> FAILED

A death is held against the session that was executing only when it is evidence against the compiler: a crash signal,
an exit, an overrun deadline. A kill from outside (SIGKILL, SIGTERM, ...) is not, the first time.
"""

import enum
import signal
from dataclasses import dataclass, field

OUTSIDE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


class SlotState(enum.Enum):
    """Where a worker slot is in its life."""

    STARTING = "starting"
    READY = "ready"
    DYING = "dying"  # a kill was ordered, the death is still to come
    WAITING = "waiting"  # for the time of the next start
    FAILED = "failed"  # given up


class KillReason(enum.Enum):
    """Why the supervisor kills a worker."""

    DEADLINE = "deadline"
    STALLED = "stalled"
    START = "start"
    GARBAGE = "garbage"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers behind the decisions; all durations in seconds."""

    start_timeout: float = 60.0  # a cold machine reads 200 MB of libLLVM and compiles the walker
    stall_timeout: float = 10.0  # has requests, executes none
    memory_threshold: int = 6 << 30  # resident bytes: a worker past it is replaced when idle, past twice it at once
    max_failed_starts: int = 3
    healthy_after: float = 10.0  # a life this long forgives the deaths before it
    first_delay: float = 0.05
    max_delay: float = 5.0
    max_death_rate: int = 20  # unexplained deaths in any `rate_window`
    rate_window: float = 60.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What the supervisor sees of a worker at one tick."""

    sequence: int  # of the status page: changes with every operation
    deadline: float | None  # of what is executing; None when nothing is
    waiting: bool  # are there requests that have no reply yet?
    stopped: bool = False  # by a signal such as SIGSTOP
    memory: int = 0  # resident bytes


@dataclass(slots=True)
class Slot:
    """The life of one worker slot. Each method is an event; what it returns is what must be done."""

    policy: Policy = field(default_factory=Policy)
    state: SlotState = SlotState.WAITING
    deaths: int = 0
    unexplained: list[float] = field(default_factory=list)  # times of recent deaths without a visible reason
    failed_starts: int = 0
    delay: float = 0.0
    since: float = 0.0  # when the present state began
    kill_reason: KillReason | None = None
    _was_ready: bool = False  # in the life of the present process
    _sequence: int = -1
    _progress: float = 0.0
    _looked: float = 0.0

    def started(self, now: float) -> None:
        """The process was spawned."""
        self.state, self.since, self.kill_reason, self._was_ready = SlotState.STARTING, now, None, False

    def ready(self, now: float) -> None:
        """The worker has answered the first hello."""
        self.state, self.since, self._was_ready = SlotState.READY, now, True
        self.failed_starts = 0
        self._sequence, self._progress = -1, now

    def observed(self, seen: Observation, now: float) -> KillReason | None:
        """Look at the worker; return why it must be killed, or None."""
        reason = None
        if now - self._looked > self.policy.stall_timeout / 4:
            self._progress = now  # we did not look for a while, say for a busy event loop: that is not its fault
        self._looked = now
        if self.state is SlotState.STARTING and now - self.since > self.policy.start_timeout:
            reason = KillReason.START
        elif self.state is SlotState.READY:
            if seen.sequence != self._sequence or not seen.waiting:
                self._sequence, self._progress = seen.sequence, now
            if seen.stopped and seen.waiting:
                overdue = now - self._progress > self.policy.stall_timeout
                reason = KillReason.STALLED if overdue else None
            elif seen.deadline is not None:
                reason = KillReason.DEADLINE if now > seen.deadline else None
            elif now - self._progress > self.policy.stall_timeout:
                reason = KillReason.STALLED
            if reason is None and self._outgrown(seen):
                reason = KillReason.MEMORY
        if reason is not None:
            self.condemn(reason, now)
        return reason

    def _outgrown(self, seen: Observation) -> bool:
        threshold = self.policy.memory_threshold
        return seen.memory > (threshold if not seen.waiting else 2 * threshold)

    def condemn(self, reason: KillReason, now: float) -> None:
        """The worker is killed for a reason found elsewhere."""
        self.state, self.since, self.kill_reason = SlotState.DYING, now, reason

    def died(self, now: float, *, explained: bool) -> float | None:
        """The process is gone; return in how many seconds to start another, or None to give up.

        Args:
            now: the time.
            explained: someone outside killed it, or a program that it was executing did. Only other deaths, at start
                or for no visible reason, speak against starting another one at once.
        """
        lived = now - self.since
        self.state, self.since = SlotState.WAITING, now
        self.deaths += 1
        if explained:
            return 0.0
        self.unexplained = [t for t in self.unexplained if now - t < self.policy.rate_window] + [now]
        if not self._was_ready:
            self.failed_starts += 1
        healthy = self._was_ready and lived > self.policy.healthy_after
        self.delay = 0.0 if healthy else min(max(self.policy.first_delay, self.delay * 2), self.policy.max_delay)
        if self.failed_starts >= self.policy.max_failed_starts or len(self.unexplained) > self.policy.max_death_rate:
            self.state = SlotState.FAILED
            return None
        return self.delay


_DESCRIPTIONS = {
    KillReason.DEADLINE: "deadline exceeded",
    KillReason.STALLED: "did not respond",
    KillReason.START: "did not start in time",
    KillReason.GARBAGE: "sent garbage",
    KillReason.MEMORY: "grew too large",
}


def is_outside_kill(return_code: int, reason: KillReason | None) -> bool:
    """Say whether a death is no evidence against the program that was executing.

    Args:
        return_code: as `subprocess` gives it, minus the signal number for a death by signal.
        reason: why the supervisor killed it, None if it did not.
    """
    if reason is not None:
        return reason is not KillReason.DEADLINE
    return return_code < 0 and -return_code in OUTSIDE_SIGNALS


def is_explained(reason: KillReason | None, *, outside: bool, executing: bool) -> bool:
    """Say whether a death has a cause outside of the worker itself, so that the next one may be expected to do better.

    Args:
        reason: why the supervisor killed it, None if it did not.
        outside: as `is_outside_kill` says.
        executing: the worker was executing a request.
    """
    if reason in (KillReason.START, KillReason.STALLED, KillReason.GARBAGE):
        return False
    return outside or executing


def describe_death(return_code: int, reason: KillReason | None) -> str:
    """Say in a few words how a worker died."""
    if reason is not None:
        return _DESCRIPTIONS[reason]
    if return_code < 0:
        try:
            return f"signal {signal.Signals(-return_code).name}"
        except ValueError:
            return f"signal {-return_code}"
    return f"exit status {return_code}"
