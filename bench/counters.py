"""What the workers of a runtime count."""

from dataclasses import dataclass

import aiocg


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums over all workers since their start.

    Attributes:
        compiler_time: seconds spent on actions and observations.
        passes: how many passes ran; the others were remembered.
    """

    compiler_time: float
    passes: int


async def counters(runtime: aiocg.Runtime) -> Counters:
    """Ask the workers."""
    found = await runtime.statistics()
    return Counters(sum(one["compiler_time"] for one in found), sum(one.get("pipelines_run", 0) for one in found))
