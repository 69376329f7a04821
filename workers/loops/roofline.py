"""How fast a computation could be at most, by what its device was measured to do: the roofline model.

A computation takes at least as long as its arithmetic does, and as long as moving its inputs and its result does. Which
of the two binds, depends on it.
"""

from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.target import Roof

__all__ = ["bandwidth", "least_seconds"]


def bandwidth(roof: Roof, footprint: int) -> float:
    """Return bytes a second that can be moved when so many bytes are worked on; the next larger size counts."""
    fitting = (rate for size, rate in sorted(roof.bandwidths) if size >= footprint)
    return next(fitting, max(roof.bandwidths)[1])


def least_seconds(computation: Computation, roof: Roof) -> float:
    """Return how long the computation takes at least, in seconds."""
    moving = computation.traffic / bandwidth(roof, computation.footprint)
    return max(computation.flops / roof.flops, moving)
