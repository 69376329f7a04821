"""A pause is no time of the request that is executed meanwhile, whoever was stopped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.host.run_time import GRAIN, RunTime
from aiocg.transport.status import BEAT

TICK = 0.05


class Worker:
    """A worker that executes one request, and a client that looks at it; both can be paused."""

    def __init__(self) -> None:
        self.now = self.ran = self.beats = self.processor = 0.0
        self.run_time = RunTime()
        self.run_time.looked(0.0, 2, 0.0, False, 0.0, 0)

    def passes(self, seconds: float, *, runs: bool = True, works: bool = False) -> None:
        """Let time pass in which nobody looks."""
        self.now += seconds
        if runs:
            self.ran += seconds
            self.processor += seconds * works

    def look(self, *, stopped: bool = False, beating: bool = True) -> float:
        """Return the time that counts."""
        beats = int(self.ran / BEAT) if beating else 0
        return self.now - self.run_time.looked(self.now, 2, 0.0, stopped, self.processor, beats)

    def watched(self, seconds: float, *, runs: bool = True) -> float:
        counted = 0.0
        for _ in range(round(seconds / TICK)):
            self.passes(TICK, runs=runs)
            counted = self.look(stopped=not runs)
        return counted


def test_all_time_counts_that_was_watched() -> None:
    assert Worker().watched(10.0) == pytest.approx(10.0)


def test_it_counts_even_if_the_worker_shows_no_other_sign_of_life() -> None:
    worker = Worker()
    for _ in range(100):
        worker.passes(TICK)
        counted = worker.look(beating=False)
    assert counted == pytest.approx(5.0)


def test_none_counts_while_the_worker_is_stopped() -> None:
    worker = Worker()
    worker.watched(1.0)
    assert worker.watched(60.0, runs=False) == pytest.approx(1.0)
    assert worker.watched(1.0) == pytest.approx(2.0)


@pytest.mark.parametrize("seconds", [1.0, 8.0, 3600.0])
def test_hardly_any_counts_while_everything_is_paused(seconds: float) -> None:
    worker = Worker()
    worker.watched(1.0)
    worker.passes(seconds, runs=False)
    assert 1.0 <= worker.look() <= 1.0 + GRAIN + 1e-6
    assert worker.watched(1.0) <= 2.0 + GRAIN + 1e-6


@pytest.mark.parametrize("works", [True, False])
def test_it_counts_while_only_the_client_is_busy_whether_the_worker_works_or_sleeps(works: bool) -> None:
    worker = Worker()
    for _ in range(5):
        worker.passes(4.0, works=works)
        counted = worker.look(beating=not works)
    assert 20.0 - 5 * BEAT <= counted <= 20.0


def test_what_was_executed_before_is_no_sign_of_life_in_this_execution() -> None:
    run_time = RunTime()
    run_time.looked(0.0, 2, 0.0, False, 0.0, 0)
    assert run_time.looked(30.0, 4, 20.0, False, 20.0, 80) == pytest.approx(10.0 - GRAIN)


def test_a_further_execution_begins_anew() -> None:
    run_time = RunTime()
    run_time.looked(0.0, 2, 0.0, False, 0.0, 0)
    assert run_time.looked(10.0, 2, 0.0, False, 0.0, 0) == pytest.approx(10.0 - GRAIN)
    assert run_time.looked(10.1, 4, 10.05, False, 0.0, 0) == 0.0


@given(
    st.lists(
        st.tuples(st.sampled_from(["watched", "busy client", "stopped worker", "paused"]), st.floats(0.1, 30.0)),
        max_size=8,
    )
)
def test_no_more_counts_than_the_worker_ran_but_a_moment_for_each_look(course: list[tuple[str, float]]) -> None:
    worker, counted = Worker(), 0.0
    for what, seconds in course:
        if what in ("watched", "stopped worker"):
            counted = worker.watched(seconds, runs=what == "watched") or counted
        else:
            worker.passes(seconds, runs=what == "busy client")
            counted = worker.look()
    assert (
        worker.ran - BEAT * (len(course) + 1) - TICK - 1e-6 <= counted <= worker.ran + GRAIN * len(course) + TICK + 1e-6
    )
