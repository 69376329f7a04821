"""Rate limits."""

from dataclasses import dataclass


@dataclass(slots=True)
class Bucket:
    """A token bucket: allows a number of events per minute, all at once if need be; as of `filled`, `left` are left."""

    left: float
    filled: float

    def take(self, per_minute: int, now: float) -> float:
        """Take one event; return 0, or the seconds until one is allowed."""
        self.left = min(float(per_minute), self.left + (now - self.filled) * per_minute / 60)
        self.filled = now
        if self.left >= 1:
            self.left -= 1
            return 0.0
        return (1 - self.left) * 60 / per_minute

    def grant(self, count: int, per_minute: int, at_once: int, now: float) -> int:
        """Take up to `count` events, as many as are allowed, and return how many."""
        self.left = min(float(at_once), self.left + (now - self.filled) * per_minute / 60)
        self.filled = now
        granted = min(count, int(self.left))
        self.left -= granted
        return granted
