"""Decides how many machines a runtime wants, by how many requests wait: pure, with the clock as an argument."""

DEEP = 8.0  # requests per worker, in flight or waiting, from which on there should be more machines
SHALLOW = 0.5  # requests per worker up to which there may be fewer
GROW_AFTER = 5.0  # seconds for which the queue was deep
SHRINK_AFTER = 60.0  # seconds for which it was shallow


class Demand:
    """The machines that a runtime wants.

    Attributes:
        wanted: how many.

    Args:
        least: how many there should be at least: those of the beginning.
    """

    def __init__(self, least: int) -> None:
        self.wanted = self._least = least
        self._deep_since: float | None = None
        self._shallow_since: float | None = None

    def looked(self, machines: int, workers: int, requests: int, now: float) -> int:
        """Handle how many machines, workers and requests without a reply there are; return how many are wanted.

        Half as many machines again are asked for at a time, and no more before those are there. One is given back at a
        time.
        """
        deep, shallow = requests > DEEP * workers, requests <= SHALLOW * workers
        self._deep_since = (self._deep_since if self._deep_since is not None else now) if deep else None
        self._shallow_since = (self._shallow_since if self._shallow_since is not None else now) if shallow else None
        if self._deep_since is not None and now - self._deep_since >= GROW_AFTER and machines >= self.wanted:
            self.wanted = machines + max(1, machines // 2)
            self._deep_since = now
        elif self._shallow_since is not None and now - self._shallow_since >= SHRINK_AFTER:
            self.wanted = max(self._least, min(self.wanted, machines) - 1)
            self._shallow_since = now
        return self.wanted
