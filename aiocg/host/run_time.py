"""Time that was seen to pass: pure functions of looks, with the clock as an argument.

A request is held to the time for which its worker ran. A pause is none of it, whether the worker was stopped, or we
were, or both, as when a container is paused. The clock says when we looked; that the worker ran in between is known if
we have looked often, if its main thread has used the processor, or if it has kept its beat, as it does while it sleeps.
"""

import math

from aiocg.transport.status import BEAT

GRAIN = 0.25  # seconds between two looks in which all is taken to go on as it is seen to be


class Stopwatch:
    """Measures the time for which somebody watched, as those who are stopped or busy can see nobody being late.

    Args:
        now: when it starts, in seconds.
    """

    __slots__ = ("_looked", "_watched")

    def __init__(self, now: float) -> None:
        self.restart(now)

    def restart(self, now: float) -> None:
        """Start again."""
        self._watched, self._looked = 0.0, now

    def passed(self, now: float) -> float:
        """Handle a look; return the time that was watched since the start, in seconds."""
        self._watched += min(now - self._looked, GRAIN)
        self._looked = now
        return self._watched


class RunTime:
    """What is known of the present execution of a worker."""

    __slots__ = ("_beats", "_looked", "_paused", "_processor", "_sequence")

    def __init__(self) -> None:
        self._sequence = -1
        self._looked = -math.inf
        self._processor = 0.0
        self._beats = 0
        self._paused = 0.0

    def looked(self, now: float, sequence: int, started: float, stopped: bool, processor: float, beats: int) -> float:
        """Handle a look at the worker; return for how many seconds of the present execution it did not run.

        Args:
            now: the time in seconds.
            sequence: changes with every execution.
            started: when the present one began.
            stopped: the worker is stopped now.
            processor: seconds of processor time that its main thread has had.
            beats: how often it has run for `BEAT` seconds.
        """
        shown = max(processor - self._processor, (beats - self._beats) * BEAT)
        if sequence != self._sequence:  # it may have run before this execution began
            self._sequence, self._paused, shown = sequence, 0.0, 0.0
        passed = max(now - max(self._looked, started), 0.0)
        self._paused += passed - min(passed, max(shown, 0.0 if stopped else GRAIN))
        self._looked, self._processor, self._beats = now, processor, beats
        return self._paused
