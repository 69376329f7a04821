"""Fair shares: divides the node's processors evenly between clients when there are too few.

The system shares processors between processes, so a client with sixteen busy workers would get sixteen times the share
of a client with one. To correct that, the workers of busier clients get higher nice values, so that the busy workers of
each client have the same total weight. Each nice value reduces a process's weight by a factor of 1.25.
"""

import math
from collections import Counter

SMOOTHING = 0.1  # weight of the latest look in the moving average; there are 20 looks per second
STEP = 1.25  # ratio of the weights of consecutive nice values
NICEST = 19


class Shares:
    """Computes nice values from the average number of busy workers of each client."""

    def __init__(self) -> None:
        self._busy: dict[str, float] = {}

    def looked(self, busy: Counter[str]) -> None:
        """Record the number of busy workers of each client, by its key."""
        mean = {key: self._busy.get(key, 0.0) * (1 - SMOOTHING) + busy[key] * SMOOTHING for key in {*self._busy, *busy}}
        self._busy = {key: value for key, value in mean.items() if value > SMOOTHING / 2}

    def nice(self, key: str) -> int:
        """Return the nice value for each worker of a client: 0 for the client with the fewest busy ones."""
        fewest = max(1.0, min(self._busy.values(), default=1.0))
        return min(NICEST, max(0, round(math.log(max(1.0, self._busy.get(key, 0.0)) / fewest, STEP))))
