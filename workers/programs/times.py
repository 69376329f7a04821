"""Observations of times, for all compilers whose programs can be run."""

import struct
from collections.abc import Callable
from typing import Any

from aiocg.transport.arrays import Array
from aiocg.workers.compilation import Observation


def time_values(values: list[float]) -> Array:
    """Encode times as the value of an observation."""
    return Array("float64", (len(values),), struct.pack(f"<{len(values)}d", *values))


def times(name: str, description: str, compute: Callable[[Any], Array]) -> Observation:
    """Return an observation of times, in seconds."""
    return Observation.of(
        name,
        "array",
        description,
        compute,
        dtype="float64",
        shape=(-1,),
        low=0,
        deterministic=False,
        platform_dependent=True,
        default=time_values([]),
    )


def execution(name: str, compute: Callable[[Any], list[dict[str, Any]]]) -> Observation:
    """Return the observation of all runs of a program."""
    about = "How each run of the program ended and what it wrote."
    return Observation.of(name, "json", about, compute, platform_dependent=True, default=[])
