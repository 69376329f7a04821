"""Whether the requests of a runtime have spans."""

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiocg.fleet.slot import WorkerSlot

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


def slot_maker(tracer: "Tracer | None") -> Callable[..., WorkerSlot]:
    """Return what makes worker slots: with spans if there is a tracer, or AIOCG_TRACE is set.

    Raises:
        AiocgError: if there are to be spans, and the extra `tracing` is not installed.
    """
    if tracer is None and not os.environ.get("AIOCG_TRACE"):
        return WorkerSlot
    from aiocg.telemetry.tracing import TracedSlot, tracer_from_environment  # needs an extra

    return functools.partial(TracedSlot, tracer or tracer_from_environment())
