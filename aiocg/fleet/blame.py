"""Decides which request is blamed for a worker's death, and which are repeated.

The request that the worker was executing is blamed at once if it overran its timeout. A crash may be the late effect of
an earlier request, so it goes first on the next process, where a second crash convicts it. Deaths of other kinds count
after several. Work that succeeded before (a replay, or loading a known program) is tried again more often.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from aiocg.errors import Interrupted, Quarantined, ServiceError, WorkerCrashed
from aiocg.fleet._suspicion import Suspicion, Trial, put_behind, put_first
from aiocg.fleet._withdrawal import SUSPICIOUS, served_by, sort_out_lost
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.requests import (
    PROCESS_LOCAL,
    Pending,
    PendingExpand,
    PendingForkAhead,
    PendingLoad,
    PendingOpen,
    PendingRebuild,
    made_before,
    postponed,
    resendable,
)
from aiocg.fleet.restart_policy import Death, describe_death
from aiocg.transport.messages import FailureCode
from aiocg.transport.status import NO_CANDIDATE, SEVERAL, Counts

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable


MAX_ATTEMPTS = 5  # a request that was executing at this many deaths is blamed, whatever killed the worker
MAX_STALLS = 3  # the same for deaths of workers that were killed because they stalled
MAX_KILLS = 20  # the same for loads and rebuilds, which random kills hit most often
MAX_CRASHES = 5  # crashes while a session is rebuilt that end it; its actions succeeded before, so one is not enough
WITHDRAWN = "a request that was made before this one was cancelled, so there is no state to start from"


# -------------------------------------------- Counters of worker slots and nodes, for metrics; they never decrease

CRASHED, OVERDUE, CANCELLED, QUARANTINED, OTHER = "crashed", "deadline", "cancelled", "quarantined", "other"
CODES = frozenset(
    {value for name, value in vars(FailureCode).items() if name.isupper()}
    | {CRASHED, OVERDUE, CANCELLED, QUARANTINED, OTHER}
)  # a remote worker may send any code; unknown ones are counted together


@dataclass(slots=True)
class Tally:
    """Counters of one slot, over all its processes.

    Attributes:
        starts: processes started.
        deaths: processes that ended, by cause.
        resent: requests sent again to the next process.
        rebuilt: sessions rebuilt on another process.
        lost: sessions that could not be rebuilt.
        failures: requests that failed, by code: of a `Failure`, or one of those above.
        compiler_seconds: time that ended processes spent in the compiler.
        bytes_sent, bytes_received: traffic with ended processes.
    """

    starts: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    resent: int = 0
    rebuilt: int = 0
    lost: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    compiler_seconds: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0

    def failed(self, code: str) -> None:
        """Count a request that failed."""
        self.failures[code if code in CODES else OTHER] += 1


@dataclass(slots=True)
class NodeTally:
    """Counters of a node, by the clients' public keys.

    Attributes:
        attached: client processes that attached.
        expired: client processes whose lease ran out.
        starts: workers requested.
        refused: workers not started, because of their kind or a limit.
        deaths: workers that ended, by key and cause.
        requests, failures, compiler_seconds, bytes_received, bytes_sent: totals of the workers that ended.
    """

    attached: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    deaths: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    compiler_seconds: dict[str, float] = field(default_factory=dict)
    bytes_received: Counter[str] = field(default_factory=Counter)
    bytes_sent: Counter[str] = field(default_factory=Counter)

    def died(self, key: str, status: int, counts: Counts | None) -> None:
        """Count a worker that ended, and add its totals."""
        self.deaths[key, describe_death(status, None)] += 1
        if counts is not None:
            self.requests[key] += counts.requests
            self.failures[key] += counts.failures
            self.compiler_seconds[key] = self.compiler_seconds.get(key, 0.0) + counts.compiler_seconds
            self.bytes_received[key] += counts.bytes_received
            self.bytes_sent[key] += counts.bytes_sent


# ----------------------------------------------------------------------------------- Logs and counts worker deaths

LONGEST = 300  # characters of a field of the log

logger = logging.getLogger("aiocg.fleet.slot")


class Records:
    """The records of one worker slot.

    Args:
        name: the slot's log fields.
        tally: the slot's counters.
        quarantine: remembers what kills workers.
    """

    def __init__(self, name: Mapping[str, Any], tally: Tally, quarantine: Quarantine) -> None:
        self._name = name
        self._tally = tally
        self._quarantine = quarantine

    def hold(self, pending: Pending, death: Death, candidate: int | None = NO_CANDIDATE, deaths: int = 1) -> None:
        """Record that a request is blamed for a death.

        Args:
            pending: the request; its session is in the state from which the request started.
            death: how the worker died.
            candidate: index of the candidate to blame, for an expansion; None to keep the request out of quarantine,
                because it is unlikely to kill other workers, or its starting state is unknown.
            deaths: number of deaths of this kind that the request has caused.
        """
        self._tally.failed(CRASHED if death.overrun is None else OVERDUE)
        fields = {
            "session": pending.session.number if pending.session is not None else None,
            "request": death.execution.request if death.execution is not None else None,
            "doing": brief(pending.doing),
            "attempt": pending.attempts or None,
            "cause": death.cause,
        }
        logger.warning("request held responsible", extra={**self._name, **fields})
        if candidate is not None and not death.outside:
            kind = self._name.get("kind", "")
            for _ in range(deaths):
                self._quarantine.blame(kind, pending, candidate, death.cause, death.overrun)

    def refused(self, pending: Pending, session: "Rebuildable", error: Quarantined) -> None:
        """Record that the quarantine refused a request."""
        self._tally.failed(QUARANTINED)
        fields = {"session": session.number, "doing": brief(pending.doing), "cause": error.causes[-1]}
        logger.info("request refused by quarantine", extra={**self._name, **fields})

    def rebuilt(self, session: "Rebuildable") -> None:
        """Record that a session is rebuilt on another process."""
        self._tally.rebuilt += 1
        logger.debug("session rebuilt", extra={**self._name, "session": session.number})

    def lost(self, session: "Rebuildable", error: Exception) -> None:
        """Record that a session cannot be rebuilt."""
        self._tally.lost += 1
        cause = getattr(error, "cause", type(error).__name__)
        logger.warning("session lost", extra={**self._name, "session": session.number, "cause": cause})


def brief(value: object) -> str:
    """Return a text cut to the length of a log field, a line or two."""
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


# ------------------------------------------------------------------------------------------ Judgement of a death


@dataclass(slots=True)
class Judgement:
    """What to do after a death.

    Attributes:
        backlog: the requests for the next process, in order.
        failed: the requests that fail, with their errors.
        cancelled: how many requests fail because they, or a request that they depend on, were cancelled.
        lost: the sessions that end, with the reason.
        convicted: the request behind a series of unexplained deaths was found.
    """

    backlog: list[Pending]
    failed: list[tuple[Pending, ServiceError]] = field(default_factory=list)
    cancelled: int = 0
    lost: "list[tuple[Rebuildable, ServiceError]]" = field(default_factory=list)
    convicted: bool = False

    def fail(self, request: Pending, error: ServiceError) -> None:
        """Move a request from the backlog to the failed ones."""
        self.backlog.remove(request)
        self.failed.append((request, error))


class Judge:
    """Judges the deaths in one worker slot.

    Attributes:
        suspicion: the search for the request behind unexplained deaths.

    Args:
        kind: of the workers.
        records: of the slot.
        quarantine: remembers what killed workers, and which programs they loaded.
    """

    def __init__(self, kind: str, records: Records, quarantine: Quarantine) -> None:
        self._kind = kind
        self._records = records
        self._quarantine = quarantine
        self.suspicion = Suspicion()

    def judge(
        self,
        death: Death,
        waiting: Mapping[int, Pending],
        backlog: Sequence[Pending],
        present: Collection[int] = (),
    ) -> Judgement:
        """Decide what happens to all requests of the slot.

        Args:
            death: how the process died.
            waiting: the requests sent to the process, by number, in order.
            backlog: all requests that could be sent to the next process, in order.
            present: numbers of the sessions that the process knew.
        """
        judgement, suspicion = Judgement(list(backlog)), self.suspicion
        executed = waiting.get(death.execution.request) if death.execution is not None else None
        trial, suspicion.trial = suspicion.trial, None
        if executed is not None and death.cancelled:
            # Requests that need the same load or rebuild, made since the cancellation, are still wanted.
            given_up = [one for one in served_by(executed, backlog) if one.abandoned]
            judgement.backlog, withdrawn = sort_out_lost(backlog, given_up)
            judgement.failed = [(one, Interrupted(WITHDRAWN)) for one in withdrawn]
            judgement.cancelled = len(withdrawn)
            self._put_behind(executed, judgement)
        elif trial is not None and trial.reply is not None and (death.is_crash or death.overrun is not None):
            self._suspect(trial.request, death, present, judgement, trial)
        elif trial is not None and not trial.sent and death.is_crash:
            suspicion.witness, suspicion.by_witness = None, False  # it has crashed alone
        elif death.is_crash:
            suspicion.aroused = suspicion.aroused or bool(resendable(waiting.values()))
            if isinstance(executed, (PendingLoad, PendingRebuild)):
                self._suspect_recovery(executed, death, present, judgement)
            elif (request := self._in_question(executed, waiting)) is not None:
                self._suspect(request, death, present, judgement)
            elif isinstance(executed, PendingForkAhead) or not resendable(waiting.values()):
                suspicion.doubt(present)  # it has died idle, or over what will not be executed again
        elif executed is not None:
            suspicion.aroused |= death.stalled  # one at a time: which is it?
            self._blame(executed, death, judgement)
            self._put_behind(executed, judgement)
        suspicion.trying = False
        return judgement

    def _in_question(self, executed: Pending | None, waiting: Mapping[int, Pending]) -> Pending | None:
        """Return the request that a process has crashed over, None if there are several or none."""
        if executed is None and self.suspicion.trying:
            return next(iter(resendable(waiting.values())), None)
        return None if isinstance(executed, PROCESS_LOCAL) else executed

    def _suspect(
        self,
        request: Pending,
        death: Death,
        present: Collection[int],
        judgement: Judgement,
        trial: Trial | None = None,
    ) -> None:
        """Convict a request over which a process has crashed, or have it go first on the next one."""
        suspicion = self.suspicion
        request.attempts += 1
        request.deaths += 1
        suspicion.aroused, by_witness = True, False
        if isinstance(request, PendingExpand) and request.only == NO_CANDIDATE:
            candidate = NO_CANDIDATE if death.execution is None or trial is not None else death.execution.candidate
            if candidate == NO_CANDIDATE:
                if parts := request.parts():
                    place = judgement.backlog.index(request)
                    judgement.backlog[place : place + 1] = parts
                else:  # all were found guilty before, so it will execute nothing
                    suspicion.doubted.discard(request.session.number)
                return
            if candidate == SEVERAL:
                request.alone = True
            else:
                judgement.backlog.insert(judgement.backlog.index(request), part := request.part(candidate))
                request = part
        elif suspicion.accused is request and suspicion.is_alone(request):
            witnessing, controlled = trial is not None and trial.witnessing, trial is not None and trial.controlled
            if witnessing is controlled:
                judgement.convicted = death.is_mystery or trial is not None
                self._sentence(request, dataclasses.replace(death, outside=False), judgement, trial)
                suspicion.convict(request)
                return
            by_witness = witnessing
        suspicion.accuse(request, present)
        suspicion.by_witness = by_witness
        judgement.backlog = put_first(judgement.backlog, request)

    def _suspect_recovery(
        self,
        executed: PendingLoad | PendingRebuild,
        death: Death,
        present: Collection[int],
        judgement: Judgement,
    ) -> None:
        """Do the same for a process that has crashed while it loaded a program or rebuilt a session."""
        suspicion = self.suspicion
        if isinstance(executed, PendingLoad):
            request: Pending | None = executed.needed_by
        else:
            request = next((one for one in judgement.backlog if one.session is executed.session), None)
        again = request is not None and suspicion.accused is request and suspicion.is_alone(request)
        self._blame_recovery(executed, death, judgement, again=again)
        if again:
            suspicion.accused = None
            self._put_behind(executed, judgement)
        elif request in judgement.backlog:
            suspicion.accuse(request, present)
            judgement.backlog = put_first(judgement.backlog, request)

    def _put_behind(self, executed: Pending, judgement: Judgement) -> None:
        """Have the session that was executing go behind all others, unless it is to be first on the next process."""
        request = executed.needed_by if isinstance(executed, PendingLoad) else executed
        accused = self.suspicion.accused
        if request.session is not None and (accused is None or accused.session is not request.session):
            judgement.backlog = put_behind(judgement.backlog, {request.session})

    def disinherit(self, backlog: Sequence[Pending], error: Exception) -> Judgement:
        """Decide which requests of a slot that is given up are too dangerous for another slot."""
        judgement = Judgement(list(backlog))
        for suspect in [one for one in backlog if one.attempts >= SUSPICIOUS]:
            held = WorkerCrashed(f"its worker was given up: {str(error).partition(chr(10))[0]}", suspect.doing)
            judgement.fail(suspect, held)
            if suspect.session is not None:
                judgement.lost.append((suspect.session, held))
        return judgement

    def _blame(self, executed: Pending, death: Death, judgement: Judgement) -> None:
        """Count a death that was no crash over a request, and fail the request if there have been enough of them."""
        if isinstance(executed, (PendingLoad, PendingRebuild)):
            self._blame_recovery(executed, death, judgement)
            return
        if isinstance(executed, PROCESS_LOCAL):
            return  # it will not be executed again
        if isinstance(executed, PendingExpand) and (candidate := _candidate(executed, death)) != NO_CANDIDATE:
            if executed.died(candidate, death, _limit(death)):
                following = made_before(executed, judgement.backlog)
                self._records.hold(executed, death, None if following else candidate)
            return
        executed.attempts += 1
        if executed.attempts >= _limit(death):
            self._sentence(executed, death, judgement)

    def _sentence(self, request: Pending, death: Death, judgement: Judgement, trial: Trial | None = None) -> None:
        """Fail a request that is to blame, and end its session; a candidate of an expansion fails alone."""
        error, deaths = death.error(request.doing), request.deaths if death.is_crash else 1
        following = made_before(request, judgement.backlog)
        if isinstance(request, PendingExpand) and request.only != NO_CANDIDATE:
            request.crashes[request.only] = error
            self._records.hold(request, death, None if following else request.only, deaths)
            return
        if following:
            held = partial(self._records.hold, death=death, deaths=deaths)
            judgement.backlog = postponed(request, judgement.backlog, error, held)
            return
        if request in judgement.backlog:
            trajectory = request.session.trajectory if request.session is not None else None
            earlier = trial is not None and trajectory is not None and trajectory.length > 0  # may have done the harm
            self._records.hold(request, death, None if earlier else NO_CANDIDATE, deaths)
            judgement.fail(request, error)
        if request.session is not None:
            judgement.lost.append((request.session, error))

    def _blame_recovery(
        self, guilty: PendingLoad | PendingRebuild, death: Death, judgement: Judgement, *, again: bool = False
    ) -> None:
        """End the session that a load or rebuild was for, once it has failed too often.

        A program that several sessions need is loaded for one request at a time, so only that request's session ends.

        Args:
            guilty: the load or rebuild.
            death: how the process died.
            judgement: what to do.
            again: it has crashed twice, the second time on a process that had executed nothing of others.
        """
        request = guilty.needed_by if isinstance(guilty, PendingLoad) else guilty
        session, error = request.session, death.error(guilty.doing)
        assert session is not None
        session.kills += death.outside
        session.crashes += not death.outside
        known = not isinstance(guilty, PendingLoad) or self._quarantine.was_loaded(self._kind, guilty.benchmark.key)
        opening = isinstance(request, PendingOpen)
        if death.outside:
            over = session.kills >= MAX_KILLS
        else:
            over = death.overrun is not None or (session.crashes >= MAX_CRASHES if known else again)
        if not over:
            if not known and opening and not death.outside:  # others may wait for that program, too
                self._quarantine.blame(self._kind, request, NO_CANDIDATE, death.cause, None)
            return
        for pending in [one for one in judgement.backlog if (one is request if opening else one.session is session)]:
            self._records.hold(pending, death, NO_CANDIDATE if opening else None)
            judgement.fail(pending, error)
        if not opening:
            judgement.lost.append((session, error))


def _limit(death: Death) -> int:
    """Return after how many deaths of a kind that is no crash the request that was executing is blamed."""
    if death.stalled:
        return MAX_STALLS
    return MAX_ATTEMPTS if death.outside else 1


def _candidate(expansion: PendingExpand, death: Death) -> int:
    """Return the candidate of an expansion that a worker died over, `NO_CANDIDATE` if it is unknown."""
    return expansion.only if death.execution is None else death.execution.candidate
