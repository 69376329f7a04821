"""The scripted compiler, in a worker whose replies can be corrupted.

What is corrupted is what the real host has encoded and the real channel sends. This is loaded by worker processes only,
through an entry point that `run` puts on their path; AIOCG_CHAOS_FLAGS names the folder where the order is given.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiocg.transport import wires
from aiocg.workers.scripted import ScriptedSession


class FrailSession(ScriptedSession):
    """A scripted session; its worker cuts a reply short when it finds the order to."""

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Get between the channel and its socket."""
        super().start(options)
        order = Path(os.environ["AIOCG_CHAOS_FLAGS"], "corrupt")
        send = wires.send_multipart

        def corrupting(socket: Any, frames: Sequence[Any], flags: int) -> None:
            if order.exists() and _take(order):
                head = bytes(frames[1])  # behind the client's identity
                frames = [frames[0], head[: len(head) // 2], *frames[2:]]
            send(socket, frames, flags)

        wires.send_multipart = corrupting


def _take(order: Path) -> bool:
    """Take the order; say whether it was there, and no other worker was quicker."""
    try:
        order.unlink()
    except FileNotFoundError:
        return False
    return True
