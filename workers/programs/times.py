"""Observations of times, for all compilers whose programs can be run."""

import struct

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec


def time_values(values: list[float]) -> Array:
    """Encode times as the value of an observation."""
    return Array("float64", (len(values),), struct.pack(f"<{len(values)}d", *values))


def times_spec(name: str, description: str) -> ObservationSpec:
    """Return the space of an observation of times, which is not deterministic."""
    return ObservationSpec(
        name,
        "array",
        description,
        "float64",
        (-1,),
        low=0,
        deterministic=False,
        platform_dependent=True,
        default=time_values([]),
    )
