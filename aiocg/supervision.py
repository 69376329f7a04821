"""Decides what happens to a worker: a pure state machine, events in and commands out, the clock an argument.

States of one worker slot::

    STARTING --ready--> READY --died--> WAITING --time--> STARTING
        |                | |  \\
        |                | |   kill (deadline, stall, memory, cancelled) --> DYING --died--> WAITING
        |                | +---grown, successor is up--> DRAINING --nothing in flight--> DYING
        +----------------+---died too often--> FAILED

Three budgets bound the deaths of a slot: those for no visible reason and those for a visible one, each in a window of
time, and all in its life. Only what the client has ordered by cancelling a request is free.

A death is held against the session that was executing only when it is evidence against the compiler: a crash signal,
an exit, an overrun deadline. A kill from outside (SIGKILL, SIGTERM, ...) is not, the first time.
"""

import enum
import math
import signal
from dataclasses import dataclass, field

DRAIN_LOOK = 0.005  # seconds between looks at a worker that is drained, while requests wait for its successor
OUTSIDE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


class SlotState(enum.Enum):
    """Where a worker slot is in its life."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"  # it gets no further requests, and is killed once those that it has are answered
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
    CANCELLED = "cancelled"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Policy:
    """The numbers behind the decisions; all durations in seconds."""

    start_timeout: float = 60.0  # a cold machine reads 200 MB of libLLVM and compiles the walker
    stall_timeout: float = 10.0  # has requests, executes none
    memory_threshold: int = 6 << 30  # resident bytes: a worker past it is drained and replaced, past twice it at once
    recycle_interval: float = 60.0  # between two replacements for memory, should what is rebuilt be as large again
    cancel_grace: float = 0.05  # that a request may still take once nobody waits for it, before its worker is replaced
    quarantine_deaths: int = 2  # after so many, what killed its worker is not tried again; 0 to try always
    max_failed_starts: int = 3
    healthy_after: float = 10.0  # a life this long forgives the deaths before it
    first_delay: float = 0.05
    max_delay: float = 5.0
    max_death_rate: int = 12  # unexplained deaths in any `rate_window`; with the delays between them, half a minute's
    max_explained_rate: int = 200  # other deaths in any `rate_window`
    max_deaths: int = 1000  # of a slot, whatever the cause, before it is given up
    rate_window: float = 60.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What the supervisor sees of a worker at one tick."""

    sequence: int  # of the status page: changes with every operation
    deadline: float | None  # of what is executing; None when nothing is
    waiting: bool  # are there requests that have no reply yet?
    stopped: bool = False  # by a signal such as SIGSTOP
    memory: int = 0  # resident bytes
    unreachable: bool = False  # it listens where nobody can connect to it
    unwanted_until: float | None = None  # when to end what it executes, because nobody waits for it; None if somebody


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A budget that a slot has used up.

    Attributes:
        limit: the number of `Policy` that says how much there was.
        allowed: its value.
        deaths: how many there were.
        seconds: in what time.
    """

    limit: str
    allowed: int
    deaths: int
    seconds: float


@dataclass(slots=True)
class Slot:
    """The life of one worker slot. Each method is an event; what it returns is what must be done."""

    policy: Policy = field(default_factory=Policy)
    state: SlotState = SlotState.WAITING
    deaths: int = 0
    unexplained: list[float] = field(default_factory=list)  # times of recent deaths without a visible reason
    explained: list[float] = field(default_factory=list)  # times of other recent deaths
    failed_starts: int = 0
    exhausted: Exhausted | None = None  # why it is given up
    delay: float = 0.0
    since: float = 0.0  # when the present state began
    kill_reason: KillReason | None = None
    _was_ready: bool = False  # in the life of the present process
    _begun: float | None = None  # when the first process was started
    _recycled: float = -math.inf  # when a process was last replaced for its memory
    _sequence: int = -1
    _progress: float = 0.0
    _looked: float = 0.0

    def started(self, now: float) -> None:
        """The process was spawned."""
        self.state, self.since, self.kill_reason, self._was_ready = SlotState.STARTING, now, None, False
        self._begun = now if self._begun is None else self._begun

    def ready(self, now: float) -> None:
        """The worker has answered the first hello."""
        self.state, self.since, self._was_ready = SlotState.READY, now, True
        self.failed_starts = 0
        self._sequence, self._progress = -1, now

    def observed(self, seen: Observation, now: float) -> KillReason | None:
        """Look at the worker; return why it must be killed, or None."""
        if now - self._looked > self.policy.stall_timeout / 4:
            self._progress = now  # we did not look for a while, say for a busy event loop: that is not its fault
        self._looked = now
        reason = None
        if self.state is SlotState.STARTING:
            if seen.unreachable:
                reason = KillReason.UNREACHABLE
            elif now - self.since > self.policy.start_timeout:
                reason = KillReason.START
        elif self.state in (SlotState.READY, SlotState.DRAINING):
            if seen.sequence != self._sequence or not seen.waiting:
                self._sequence, self._progress = seen.sequence, now
            reason = self._overdue(seen, now)
        if reason is not None:
            self.condemn(reason, now)
        return reason

    def _overdue(self, seen: Observation, now: float) -> KillReason | None:
        stalled = now - self._progress > self.policy.stall_timeout
        if seen.stopped and seen.waiting:
            if stalled:
                return KillReason.STALLED
        elif seen.deadline is not None:
            if now > seen.deadline:
                return KillReason.DEADLINE
        elif stalled:
            return KillReason.STALLED
        if seen.unwanted_until is not None and now >= seen.unwanted_until:
            return KillReason.CANCELLED
        drained = self.state is SlotState.DRAINING and not seen.waiting
        return KillReason.MEMORY if drained or seen.memory > 2 * self.policy.memory_threshold else None

    def next_look(self, seen: Observation, now: float) -> float:
        """Return when to look again for something that is known to come, infinity when nothing is."""
        known = [time for time in (seen.deadline, seen.unwanted_until) if time is not None]
        if self.state is SlotState.DRAINING:
            known.append(now + DRAIN_LOOK)
        return min(known, default=math.inf)

    def outgrown(self, seen: Observation, now: float) -> bool:
        """Say whether to start a successor now, for a worker that has grown; `drain` it once that is up."""
        outgrown = (
            self.state is SlotState.READY
            and seen.memory > self.policy.memory_threshold
            and now - self._recycled > self.policy.recycle_interval
        )
        if outgrown:
            self._recycled = now
        return outgrown

    def drain(self, now: float) -> bool:
        """The successor is up: let the worker answer what it has; say whether it is still there to do so."""
        if self.state is not SlotState.READY:
            return False
        self.state = SlotState.DRAINING
        return True

    def condemn(self, reason: KillReason, now: float) -> None:
        """The worker is killed for a reason found elsewhere."""
        self.state, self.kill_reason = SlotState.DYING, reason

    def died(self, now: float, *, explained: bool) -> float | None:
        """The process is gone; return in how many seconds to start another, or None to give up.

        Args:
            now: the time.
            explained: someone outside killed it, or a program that it was executing did. Only other deaths, at start
                or for no visible reason, speak against starting another one at once.
        """
        lived = now - self.since
        self.state, self.since = SlotState.WAITING, now
        if self.kill_reason is KillReason.CANCELLED:
            return 0.0
        self.deaths += 1
        recent = self.explained if explained else self.unexplained
        recent[:] = [*(time for time in recent if now - time < self.policy.rate_window), now]
        if not explained:
            self.failed_starts += not self._was_ready
            healthy = self._was_ready and lived > self.policy.healthy_after
            self.delay = 0.0 if healthy else min(max(self.policy.first_delay, self.delay * 2), self.policy.max_delay)
        self.exhausted = self._exhausted(now)
        if self.exhausted is not None:
            self.state = SlotState.FAILED
            return None
        return 0.0 if explained else self.delay

    def _exhausted(self, now: float) -> Exhausted | None:
        policy, begun = self.policy, now if self._begun is None else self._begun
        if self.failed_starts >= policy.max_failed_starts:
            return Exhausted("max_failed_starts", policy.max_failed_starts, self.failed_starts, now - begun)
        for limit, times in (("max_death_rate", self.unexplained), ("max_explained_rate", self.explained)):
            allowed: int = getattr(policy, limit)
            if len(times) > allowed:
                return Exhausted(limit, allowed, len(times), now - times[0])
        if self.deaths > policy.max_deaths:
            return Exhausted("max_deaths", policy.max_deaths, self.deaths, now - begun)
        return None


_DESCRIPTIONS = {
    KillReason.DEADLINE: "deadline exceeded",
    KillReason.STALLED: "did not respond",
    KillReason.START: "did not start in time",
    KillReason.GARBAGE: "sent garbage",
    KillReason.MEMORY: "grew too large",
    KillReason.UNREACHABLE: "could not be reached",
    KillReason.CANCELLED: "was executing what had been cancelled",
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
