"""The scripted compiler, in a worker whose replies can be corrupted.

What is corrupted is what the real host has encoded and the real channel sends. This is loaded by worker processes only,
through an entry point that `run` puts on their path; AIOCG_CHAOS_FLAGS names the folder where the order is given.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiocg.transport.framing import Outgoing
from aiocg.workers.scripted import ScriptedSession


class FrailSession(ScriptedSession):
    """A scripted session; its worker cuts a reply short when it finds the order to."""

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Get between the channel and its socket."""
        super().start(options)
        order = Path(os.environ["AIOCG_CHAOS_FLAGS"], "corrupt")
        put = Outgoing.put

        def corrupting(outgoing: Outgoing, frames: Sequence[Any]) -> None:
            if order.exists() and _take(order):
                head = bytes(frames[0])
                frames = [head[: len(head) // 2], *frames[1:]]
            put(outgoing, frames)

        Outgoing.put = corrupting  # type: ignore[method-assign]


def _take(order: Path) -> bool:
    """Take the order; say whether it was there, and no other worker was quicker."""
    try:
        order.unlink()
    except FileNotFoundError:
        return False
    return True
