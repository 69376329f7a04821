"""Logs and counts worker deaths."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from aiocg.errors import Quarantined
from aiocg.fleet.death import Death
from aiocg.fleet.pending import Pending
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.tally import CRASHED, OVERDUE, QUARANTINED, Tally
from aiocg.transport.status import NO_CANDIDATE

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["Records", "brief"]

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
