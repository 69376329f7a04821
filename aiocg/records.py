"""What is put on record about a request that fails for a death: counted, logged, and remembered by the quarantine."""

import logging
from collections.abc import Mapping
from typing import Any

from aiocg.death import Death
from aiocg.quarantine import Quarantine
from aiocg.requests import Pending
from aiocg.telemetry.logs import brief
from aiocg.telemetry.tally import CRASHED, OVERDUE, Tally
from aiocg.transport.status import NO_CANDIDATE

__all__ = ["Records"]

logger = logging.getLogger("aiocg.worker")


class Records:
    """The records of one worker slot.

    Args:
        name: the slot's, as the fields that the logs have.
        tally: counts failures.
        quarantine: learns what kills workers.
    """

    def __init__(self, name: Mapping[str, Any], tally: Tally, quarantine: Quarantine) -> None:
        self._name = name
        self._tally = tally
        self._quarantine = quarantine

    def hold(self, pending: Pending, death: Death, candidate: int | None = NO_CANDIDATE) -> None:
        """Hold a request responsible for a death.

        Args:
            pending: the request, whose session is at the state that it started from.
            death: how the worker died.
            candidate: which candidate of it, if it is an expansion; None where it is not suspected of killing others,
                or where it is not known what state it started from.
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
            self._quarantine.blame(kind, pending, candidate, death.cause, death.overrun)
