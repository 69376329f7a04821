"""Refuses requests that the quarantine holds, before they reach a worker."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiocg.errors import Quarantined
from aiocg.fleet.expansion import PendingExpand
from aiocg.fleet.pending import Pending
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.records import Records
from aiocg.fleet.requests import PendingOpen, PendingStep
from aiocg.transport.status import NO_CANDIDATE

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["Admission"]


class Admission:
    """Decides which requests of one worker slot are sent.

    Args:
        kind: of the worker.
        quarantine: the questions that killed workers.
        records: of the slot.
        in_flight: the requests that the process has not answered.
    """

    def __init__(self, kind: str, quarantine: Quarantine, records: Records, in_flight: Mapping[int, Pending]) -> None:
        self._kind = kind
        self._quarantine = quarantine
        self._records = records
        self._in_flight = in_flight

    def refuses(self, pending: Pending, session: "Rebuildable") -> bool:
        """Reject a quarantined request, or mark the quarantined candidates of one; return whether it was rejected."""
        if isinstance(pending, PendingExpand):
            for candidate in range(len(pending.candidates)):
                if (error := self._refusal(pending, session, candidate)) is not None:
                    pending.crashes.setdefault(candidate, error)
        elif (error := self._refusal(pending, session)) is not None:
            session.ended = session.ended or (isinstance(pending, PendingStep) and bool(pending.actions))
            pending.reject(error)
            return True
        return False

    def _refusal(self, pending: Pending, session: "Rebuildable", candidate: int = NO_CANDIDATE) -> Quarantined | None:
        error = self._quarantine.refusal(self._kind, pending, candidate)
        if error is not None and (isinstance(pending, PendingOpen) or self._is_at_rest(session)):
            self._records.refused(pending, session, error)
            return error
        return None

    def _is_at_rest(self, session: "Rebuildable") -> bool:
        """Is the session's state known, because no request in flight changes it?"""
        return not any(session in one.changes() for one in self._in_flight.values())
