"""How many runs are timed: on a device of which only the clock is there, and stands still but for what is launched."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from aiocg.workers.loops.cuda.target import _time_runs


class Clock:
    """A device that needs some time for each run and nothing else.

    Attributes:
        now: seconds since the begin.
        runs: how many there were.
    """

    def __init__(self, each: Callable[[int], float]) -> None:
        self.now, self.runs, self._each, self._recorded = 0.0, 0, each, -1
        self.stream = SimpleNamespace(begin_capture=self._begin, end_capture=self._end)
        self.cupy = SimpleNamespace(cuda=SimpleNamespace(Event=self._event, get_elapsed_time=self._elapsed))

    def run(self) -> None:
        """Launch a run, which only a recording takes note of."""
        assert self._recorded >= 0
        self._recorded += 1

    def _begin(self) -> None:
        self._recorded = 0

    def _end(self) -> Any:
        count, self._recorded = self._recorded, -1
        return SimpleNamespace(upload=lambda stream: None, launch=lambda stream: self._launch(count))

    def _launch(self, count: int) -> None:
        for _ in range(count):
            self.now += self._each(self.runs)
            self.runs += 1

    def _event(self) -> Any:
        event = SimpleNamespace(synchronize=lambda: None, time=0.0)
        event.record = lambda stream: setattr(event, "time", self.now)
        return event

    def _elapsed(self, start: Any, end: Any) -> float:
        milliseconds: float = 1000 * (end.time - start.time)
        return milliseconds


@pytest.mark.parametrize("each", [1e-6, 3e-5, 1e-3])
def test_short_runs_are_timed_together_for_about_as_long_as_asked(each: float) -> None:
    device: Any = Clock(lambda run: each)
    timing = _time_runs(device, device.run, samples=5, seconds=0.1)
    assert [timing.low, timing.seconds, timing.high] == pytest.approx([each] * 3)
    assert timing.samples == 5
    assert timing.runs * each == pytest.approx(0.1 / 5, rel=0.5)
    assert device.now < 0.2


def test_a_run_that_is_as_long_as_a_sample_is_timed_by_itself() -> None:
    device: Any = Clock(lambda run: 2.0)
    timing = _time_runs(device, device.run, samples=3, seconds=6.0)
    assert timing == (2.0, 2.0, 2.0, 3, 1)
    assert device.runs == 4


def test_a_run_that_is_longer_than_all_samples_is_the_only_one() -> None:
    device: Any = Clock(lambda run: 2.0)
    assert _time_runs(device, device.run, samples=3, seconds=1.0) == (2.0, 2.0, 2.0, 1, 1)
    assert device.runs == 1


def test_the_first_runs_do_not_count_and_samples_vary() -> None:
    device: Any = Clock(lambda run: 5.0 if run == 0 else 1.0 + run)
    timing = _time_runs(device, device.run, samples=5, seconds=9.0)
    assert (timing.low, timing.seconds, timing.high) == (3.0, 4.0, 5.0)
