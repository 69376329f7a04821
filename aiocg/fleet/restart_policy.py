"""Decides when worker processes are started and killed: a pure state machine, with the clock as an argument.

States of one worker slot::

    STARTING --ready--> READY --died--> WAITING --time--> STARTING
        |                | |  \
        |                | |   kill (deadline, stall, memory, cancelled) --> DYING --died--> WAITING
        |                | +---grown or leaving, successor is up--> DRAINING --nothing in flight--> DYING
        +----------------+---died too often--> FAILED --time--> WAITING

A start and a stall are timed by what was watched: a client that does not look for a while, because it is busy or was
stopped, has seen neither.

Three budgets bound the deaths of a slot: unexplained deaths in a window of time, explained deaths in a window of time,
and all deaths in its life. Only kills that carry out a cancellation, and the loss or the leaving of a node, are free.

A death counts against the session that was executing only if it is evidence against the compiler: a crash signal, an
exit, an overrun deadline. A kill from outside (SIGKILL, SIGTERM, ...) is not evidence, the first few times.
"""

import enum
import math
import signal
from dataclasses import dataclass, field

from aiocg.errors import DeadlineExceeded, ServiceError, WorkerCrashed
from aiocg.host.run_time import Stopwatch
from aiocg.transport.status import Execution

MOST_PATIENCE = 16  # times `Policy.recovery_delay`
DRAIN_LOOK = 0.005  # seconds between looks at a worker that is being drained
OUTSIDE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


class SlotState(enum.Enum):
    """State of a worker slot."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"  # gets no new requests, and is killed once the present ones are answered
    DYING = "dying"  # was killed, but has not ended yet
    WAITING = "waiting"  # for the next start
    FAILED = "failed"  # given up, for a while


class KillReason(enum.Enum):
    """Why the supervisor kills a worker."""

    DEADLINE = "deadline"
    STALLED = "stalled"
    START = "start"
    GARBAGE = "garbage"
    MEMORY = "memory"
    CANCELLED = "cancelled"
    UNREACHABLE = "unreachable"
    MOVED = "moved"
    LOST = "lost"  # not killed: its machine is gone


FREE = frozenset({KillReason.CANCELLED, KillReason.MOVED, KillReason.LOST})  # these count against no budget


@dataclass(frozen=True, slots=True)
class Policy:
    """The parameters of the supervisor's decisions; all durations in seconds."""

    start_timeout: float = 60.0  # a cold machine reads 200 MB of libLLVM and compiles the walker
    start_grace: float = 1.0  # beyond twice the longest start, after which the sessions need not wait for a worker
    stall_timeout: float = 10.0  # that a worker may have requests and execute none
    memory_threshold: int = 6 << 30  # resident bytes; a larger worker is drained and replaced, at twice this killed
    recycle_interval: float = 60.0  # between two replacements for memory, as the rebuilt worker may be as large
    cancel_grace: float = 0.05  # for a cancelled request to finish before its worker is replaced
    quarantine_deaths: int = 2  # after so many deaths a request is not tried again; 0 to try always
    max_failed_starts: int = 3  # consecutive failures after which a slot is given up
    start_patience: float = 10.0  # that starts must also fail for, if one has succeeded before
    healthy_after: float = 10.0  # a process that lived this long resets the delay
    first_delay: float = 0.05  # before a restart; doubles with each death
    max_delay: float = 5.0
    max_death_rate: int = 12  # unexplained deaths in any `rate_window`; with the delays, half a minute's worth
    max_explained_rate: int = 200  # explained deaths in any `rate_window`
    max_deaths: int = 1000  # deaths by any cause after which a slot is given up
    rate_window: float = 60.0
    recovery_delay: float = 60.0  # before a slot that was given up is tried again; doubles each time, up to 16 times


@dataclass(frozen=True, slots=True)
class Observation:
    """What the supervisor sees of a worker at one tick."""

    sequence: int  # of the status page; changes with every operation
    deadline: float | None  # of the request being executed; None if there is none
    waiting: bool  # has requests without a reply
    stopped: bool = False  # by a signal such as SIGSTOP
    memory: int = 0  # resident bytes
    unreachable: bool = False  # listens, but nobody can connect
    unwanted_until: float | None = None  # when to kill it because nobody waits for what it executes; None if wanted


@dataclass(frozen=True, slots=True)
class Exhausted:
    """A budget that a slot has used up.

    Attributes:
        limit: name of the `Policy` parameter.
        allowed: its value.
        deaths: number of deaths.
        seconds: the time in which they happened.
    """

    limit: str
    allowed: int
    deaths: int
    seconds: float


@dataclass(slots=True)
class SlotLifecycle:
    """The life of one worker slot. Each method is an event, and returns what the caller must do."""

    policy: Policy = field(default_factory=Policy)
    state: SlotState = SlotState.WAITING
    deaths: int = 0
    unexplained: list[float] = field(default_factory=list)  # times of recent unexplained deaths
    explained: list[float] = field(default_factory=list)  # times of other recent deaths
    failed_starts: int = 0  # consecutive
    proven: bool = False  # a worker of this kind has been ready
    exhausted: Exhausted | None = None  # why the slot was given up
    delay: float = 0.0  # before the next start
    since: float = 0.0  # when the present state began
    longest_start: float = 0.0  # seconds, of those that succeeded
    kill_reason: KillReason | None = None
    _failing: float = 0.0  # when the first of the failed starts failed
    _was_ready: bool = False  # the present process has been ready
    _begun: float | None = None  # when the first process was started
    _recycled: float = -math.inf  # when a process was last replaced for its memory
    _drained_for: KillReason = KillReason.MEMORY
    _sequence: int = -1
    _times_given_up: int = 0  # one after the other
    _watched: Stopwatch = field(default_factory=lambda: Stopwatch(0.0))  # since the last progress
    _down: Stopwatch = field(default_factory=lambda: Stopwatch(0.0))  # since a worker was up

    def started(self, now: float) -> None:
        """Handle that the process was spawned."""
        self.state, self.since, self.kill_reason, self._was_ready = SlotState.STARTING, now, None, False
        self._begun = now if self._begun is None else self._begun
        self._watched.restart(now)

    def ready(self, now: float) -> None:
        """Handle that the worker answered the hello."""
        self.longest_start = max(self.longest_start, self._watched.passed(now))
        self.state, self.since, self._was_ready, self.proven = SlotState.READY, now, True, True
        self.failed_starts, self._sequence = 0, -1
        self._watched.restart(now)

    def is_missing(self, longest_start: float, now: float) -> bool:
        """Return whether the slot has been without a worker for so long that its sessions should not wait for one.

        Args:
            longest_start: seconds that the longest successful start of a worker of this kind has taken.
            now: the time in seconds; call this with every look.
        """
        if self.state not in (SlotState.WAITING, SlotState.STARTING):
            self._down.restart(now)
        return self._down.passed(now) > self.policy.start_grace + 2 * longest_start

    def observed(self, seen: Observation, now: float) -> KillReason | None:
        """Handle an observation; return why the worker must be killed, or None."""
        watched, reason = self._watched.passed(now), None
        if self.state is SlotState.STARTING:
            if seen.unreachable:
                reason = KillReason.UNREACHABLE
            elif watched > self.policy.start_timeout:
                reason = KillReason.START
        elif self.state in (SlotState.READY, SlotState.DRAINING):
            if seen.sequence != self._sequence or not seen.waiting:
                self._sequence = seen.sequence
                self._watched.restart(now)
                watched = 0.0
            reason = self._overdue(seen, now, stalled=watched > self.policy.stall_timeout)
        if reason is not None:
            self.condemn(reason, now)
        return reason

    def _overdue(self, seen: Observation, now: float, *, stalled: bool) -> KillReason | None:
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
        if drained:
            return self._drained_for
        return KillReason.MEMORY if seen.memory > 2 * self.policy.memory_threshold else None

    def next_look(self, seen: Observation, now: float) -> float:
        """Return when the next known deadline falls due, infinity if there is none."""
        known = [time for time in (seen.deadline, seen.unwanted_until) if time is not None]
        if self.state is SlotState.DRAINING:
            known.append(now + DRAIN_LOOK)
        return min(known, default=math.inf)

    def outgrown(self, seen: Observation, now: float) -> bool:
        """Return whether to start a successor because the worker uses too much memory; call `drain` when it is up."""
        outgrown = (
            self.state is SlotState.READY
            and seen.memory > self.policy.memory_threshold
            and now - self._recycled > self.policy.recycle_interval
        )
        if outgrown:
            self._recycled = now
        return outgrown

    def drain(self, reason: KillReason = KillReason.MEMORY) -> bool:
        """Let the worker finish its requests, as its successor is up; return False if it is not ready any more."""
        if self.state is not SlotState.READY:
            return False
        self.state, self._drained_for = SlotState.DRAINING, reason
        return True

    def condemn(self, reason: KillReason, now: float) -> None:
        """Handle that the caller kills the worker."""
        self.state, self.kill_reason = SlotState.DYING, reason

    def forgive(self) -> None:
        """Clear the unexplained deaths, because the request behind them was found."""
        self.unexplained.clear()
        self.delay = 0.0

    def died(self, now: float, *, explained: bool) -> float | None:
        """Handle the end of the process; return the delay before the next start in seconds, or None to give up.

        Args:
            now: the time in seconds.
            explained: it was killed from outside, or by the program that it was executing. Only unexplained deaths
                delay the next start.
        """
        lived = now - self.since
        self.state, self.since = SlotState.WAITING, now
        if self.kill_reason in FREE:
            return 0.0
        if self._was_ready and lived > self.policy.rate_window:
            self._times_given_up = 0
        self.deaths += 1
        recent = self.explained if explained else self.unexplained
        recent[:] = [*(time for time in recent if now - time < self.policy.rate_window), now]
        if not explained:
            if not self._was_ready:
                self._failing = self._failing if self.failed_starts else now
                self.failed_starts += 1
            healthy = self._was_ready and lived > self.policy.healthy_after
            self.delay = 0.0 if healthy else min(max(self.policy.first_delay, self.delay * 2), self.policy.max_delay)
        self.exhausted = self._exhausted(now)
        if self.exhausted is not None:
            self.give_up(now)
            return None
        return 0.0 if explained else self.delay

    def give_up(self, now: float) -> None:
        """Handle that the slot is given up."""
        self.state, self.since = SlotState.FAILED, now
        self._times_given_up += 1

    def may_return(self, now: float) -> bool:
        """Return whether a slot that was given up should be tried again; it then has all its budgets again."""
        times = min(2 ** (self._times_given_up - 1), MOST_PATIENCE)
        if self.state is not SlotState.FAILED or now - self.since < self.policy.recovery_delay * times:
            return False
        self.state, self.since, self.exhausted, self._begun = SlotState.WAITING, now, None, None
        self.deaths = self.failed_starts = 0
        self.unexplained.clear()
        self.explained.clear()
        self.delay = 0.0
        return True

    def _exhausted(self, now: float) -> Exhausted | None:
        policy, begun = self.policy, now if self._begun is None else self._begun
        patient = self.proven and now - self._failing < policy.start_patience  # for example, while a disk is full
        if self.failed_starts >= policy.max_failed_starts and not patient:
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
    KillReason.MOVED: "moved to another node",
    KillReason.LOST: "its node was lost",
}


def is_outside_kill(return_code: int, reason: KillReason | None) -> bool:
    """Return whether a death is no evidence against the program that was executing.

    Args:
        return_code: as in `subprocess`: minus the signal number for a death by signal.
        reason: why the supervisor killed the worker, None if it did not.
    """
    if reason is not None:
        return reason is not KillReason.DEADLINE
    return return_code < 0 and -return_code in OUTSIDE_SIGNALS


def is_explained(reason: KillReason | None, *, outside: bool, executing: bool) -> bool:
    """Return whether a death has a cause outside the worker itself, so that its successor can be expected to live.

    Args:
        reason: why the supervisor killed the worker, None if it did not.
        outside: result of `is_outside_kill`.
        executing: the worker was executing a request.
    """
    if reason in (KillReason.START, KillReason.STALLED, KillReason.GARBAGE):
        return False
    return outside or executing


def describe_death(return_code: int, reason: KillReason | None) -> str:
    """Return the cause of a death in a few words."""
    if reason is not None:
        return _DESCRIPTIONS[reason]
    if return_code < 0:
        try:
            return f"signal {signal.Signals(-return_code).name}"
        except ValueError:
            return f"signal {-return_code}"
    return f"exit status {return_code}"


# ------------------------------------------------- How a worker process ended, and whether its request is to blame


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
        unstarted: it was killed because it had not started in time, so it has executed nothing.
    """

    cause: str
    execution: Execution | None
    outside: bool
    overrun: float | None = None
    cancelled: bool = False
    stderr: str = ""
    stalled: bool = False
    explained: bool = True
    unstarted: bool = False

    @property
    def is_mystery(self) -> bool:
        """Did it die idle, without a known cause?"""
        return self.execution is None and not self.explained and not self.unstarted

    @property
    def is_crash(self) -> bool:
        """Did it end by itself, which may be the late effect of an earlier request?"""
        return self.is_mystery or not (self.outside or self.overrun is not None)

    def error(self, doing: str) -> ServiceError:
        """Return the error for the request that is blamed; `doing` says what the request was to do."""
        if self.overrun is not None:
            return DeadlineExceeded(self.overrun, doing, self.stderr)
        return WorkerCrashed(self.cause, doing, self.stderr)
