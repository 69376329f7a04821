"""The scripted compiler, in a worker whose replies can be corrupted, and which crashes on order.

What is corrupted is what the real host has encoded and the real channel sends, and the crash is a real one. This is
loaded by worker processes only, through an entry point that `run` puts on their path; AIOCG_CHAOS_FLAGS names the
folder where orders are given: files named `corrupt`, `crash-load` and `crash-action`.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiocg.transport.framing import Outgoing
from aiocg.workers.scripted import ScriptedSession


class FrailSession(ScriptedSession):
    """A scripted session; its worker cuts a reply short or crashes when it finds the order to."""

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Get between the channel and its socket."""
        super().start(options)
        put = Outgoing.put

        def corrupting(outgoing: Outgoing, frames: Sequence[Any]) -> None:
            if _take("corrupt"):
                head = bytes(frames[0])
                frames = [head[: len(head) // 2], *frames[1:]]
            put(outgoing, frames)

        Outgoing.put = corrupting  # type: ignore[method-assign]

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> int:
        """Read the number, or crash."""
        _crash_if_ordered("crash-load")
        return super().load_benchmark(content, program)

    def apply_action(self, action: Any) -> Any:
        """Execute the action, or crash."""
        _crash_if_ordered("crash-action")
        return super().apply_action(action)


def _crash_if_ordered(name: str) -> None:
    if _take(name):
        ctypes.string_at(0)


def _take(name: str) -> bool:
    """Take the order; say whether it was there, and no other worker was quicker."""
    order = Path(os.environ["AIOCG_CHAOS_FLAGS"], name)
    if not order.exists():
        return False
    try:
        order.unlink()
    except FileNotFoundError:
        return False
    return True
