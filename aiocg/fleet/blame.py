"""Decides which request is blamed for the death of a worker, and what happens to the requests without a reply.

The request that the worker was executing is blamed at once if it overran its timeout or ended the process, and at the
second crash signal: the first may be the late effect of an earlier request. Deaths of other kinds count after several.
Work that succeeded before (a replay, or loading a known program) is tried again more often.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from aiocg.errors import Interrupted, ServiceError, WorkerCrashed
from aiocg.fleet.death import Death
from aiocg.fleet.expansion import PendingExpand
from aiocg.fleet.pending import Pending
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.records import Records
from aiocg.fleet.recovery import PROCESS_LOCAL, PendingLoad, PendingRebuild, made_before, postponed
from aiocg.fleet.requests import PendingOpen
from aiocg.fleet.suspicion import Suspicion, put_behind
from aiocg.fleet.withdrawal import served_by, sort_out_lost
from aiocg.transport.status import NO_CANDIDATE

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["Judge", "Judgement"]

MAX_ATTEMPTS = 5  # a request that was executing at this many deaths is blamed, whatever killed the worker
MAX_SIGNALS = 2  # a request that was executing at this many deaths by a crash signal is blamed
MAX_STALLS = 3  # the same for deaths of workers that were killed because they stalled
MAX_KILLS = 20  # the same for loads and rebuilds, which random kills hit most often
MAX_CRASHES = 5  # crashes while a session is rebuilt that end it; its actions succeeded before, so one is not enough
WITHDRAWN = "a request that was made before this one was cancelled, so there is no state to start from"


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

    def judge(self, death: Death, waiting: Mapping[int, Pending], backlog: Sequence[Pending]) -> Judgement:
        """Decide what happens to all requests of the slot.

        Args:
            death: how the process died.
            waiting: the requests sent to the process, by number, in order.
            backlog: all requests that could be sent to the next process, in order.
        """
        judgement = Judgement(list(backlog))
        guilty = waiting.get(death.execution.request) if death.execution is not None else None
        suspect = None
        if death.is_mystery:
            suspect, judgement.convicted = self.suspicion.arouse(waiting.values())
        if guilty is not None and death.cancelled:
            # Requests that need the same load or rebuild, made since the cancellation, are still wanted.
            given_up = [one for one in served_by(guilty, backlog) if one.abandoned]
            judgement.backlog, withdrawn = sort_out_lost(backlog, given_up)
            judgement.failed = [(one, Interrupted(WITHDRAWN)) for one in withdrawn]
            judgement.cancelled = len(withdrawn)
        elif guilty is not None:
            self.suspicion.aroused |= death.signalled or death.stalled  # one at a time: which is it?
            singular = not isinstance(guilty, (*PROCESS_LOCAL, PendingExpand))  # candidates are counted one by one
            again = death.signalled and singular and self.suspicion.accuse(guilty)
            self._blame(guilty, death, 1 if again else _limit(death), judgement)
        elif suspect is not None and judgement.convicted:
            self._blame(suspect, dataclasses.replace(death, outside=False), 1, judgement)
        elif isinstance(suspect, PendingExpand):
            self._divide(suspect, judgement)
        elif suspect is not None:
            self._quarantine.blame(self._kind, suspect, NO_CANDIDATE, death.cause, None)
        self.suspicion.trying = False
        tried = guilty or suspect
        tried = tried.needed_by if isinstance(tried, PendingLoad) else tried
        if tried is not None and tried.session is not None:
            judgement.backlog = put_behind(judgement.backlog, {tried.session})
        return judgement

    def disinherit(self, backlog: Sequence[Pending], error: Exception) -> Judgement:
        """Decide which requests of a slot that is given up are too dangerous for another slot."""
        judgement = Judgement(list(backlog))
        for suspect in filter(self.suspicion.is_suspect, backlog):
            held = WorkerCrashed(f"its worker was given up: {str(error).partition(chr(10))[0]}", suspect.doing)
            judgement.fail(suspect, held)
            if suspect.session is not None:
                judgement.lost.append((suspect.session, held))
        return judgement

    def _blame(self, guilty: Pending, death: Death, limit: int, judgement: Judgement) -> None:
        """Count a death over a request, and fail the request if that makes `limit` of them."""
        error = death.error(guilty.doing)
        backlog = judgement.backlog
        if isinstance(guilty, (PendingLoad, PendingRebuild)):
            self._blame_recovery(guilty, error, death, judgement)
            return
        following = made_before(guilty, backlog)
        if isinstance(guilty, PendingExpand) and (candidate := _candidate(guilty, death)) != NO_CANDIDATE:
            if guilty.died(candidate, death, limit):
                self._records.hold(guilty, death, None if following else candidate, deaths=limit)
            return
        guilty.attempts += 1
        guilty.signals += death.signalled
        if (guilty.signals if death.signalled else guilty.attempts) < limit:
            return
        if following:
            judgement.backlog = postponed(guilty, backlog, error, partial(self._records.hold, death=death))
            return
        if guilty in backlog:  # false for a fork ahead, which is not sent again
            self._records.hold(guilty, death, deaths=limit)
            judgement.fail(guilty, error)
        if guilty.session is not None:
            judgement.lost.append((guilty.session, error))

    def _divide(self, expansion: PendingExpand, judgement: Judgement) -> None:
        """Replace a suspected expansion by one suspected request per candidate."""
        place, parts = judgement.backlog.index(expansion), expansion.parts()
        judgement.backlog[place : place + 1] = parts
        self.suspicion.suspects.update(parts)

    def _blame_recovery(
        self, guilty: PendingLoad | PendingRebuild, error: ServiceError, death: Death, judgement: Judgement
    ) -> None:
        """End the session that a load or rebuild was for, once it has failed too often.

        A program that several sessions need is loaded for one request at a time, so only that request's session ends.
        """
        request = guilty.needed_by if isinstance(guilty, PendingLoad) else guilty
        session = request.session
        assert session is not None
        session.kills += death.outside
        session.crashes += not death.outside
        known = not isinstance(guilty, PendingLoad) or self._quarantine.was_loaded(self._kind, guilty.benchmark.key)
        again = death.overrun is None and session.crashes < (MAX_CRASHES if known else _limit(death))
        opening = isinstance(request, PendingOpen)
        if session.kills < MAX_KILLS if death.outside else again:
            if not known and opening and not death.outside:  # others may wait for that program, too
                self._quarantine.blame(self._kind, request, NO_CANDIDATE, death.cause, None)
            return
        for pending in [one for one in judgement.backlog if (one is request if opening else one.session is session)]:
            self._records.hold(pending, death, NO_CANDIDATE if opening else None)
            judgement.fail(pending, error)
        if not opening:
            judgement.lost.append((session, error))


def _limit(death: Death) -> int:
    """Return after how many deaths of this kind the request that was executing is blamed."""
    if death.stalled:
        return MAX_STALLS
    if death.outside:
        return MAX_ATTEMPTS
    return MAX_SIGNALS if death.signalled else 1


def _candidate(expansion: PendingExpand, death: Death) -> int:
    """Return the candidate of an expansion that a worker died over, `NO_CANDIDATE` if it is unknown."""
    return expansion.only if death.execution is None else death.execution.candidate
