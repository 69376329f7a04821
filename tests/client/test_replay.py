"""Trajectories: what rebuilds a session."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from aiocg.fleet.rebuildable import Trajectory
from aiocg.testing import scripted_benchmark

START = Trajectory(scripted_benchmark(5), 5)


@given(st.lists(st.lists(st.integers(0, 200), max_size=5), max_size=20))
def test_actions_come_back_in_the_order_they_were_appended(batches: list[list[int]]) -> None:
    trajectory = START
    for number, batch in enumerate(batches):
        trajectory = trajectory.extended(batch, number)
    expected = [action for batch in batches for action in batch]
    assert (trajectory.actions(), trajectory.length) == (expected, len(expected))
    assert trajectory.benchmark is START.benchmark


def test_the_state_is_that_after_the_last_action() -> None:
    assert START.extended([1, 2], 77).state == 77


def test_appending_leaves_the_trajectory_it_started_from() -> None:
    base = START.extended([1, 2], 10)
    left, right = base.extended([3], 11), base.extended([4, 5], 12)
    assert (base.actions(), left.actions(), right.actions()) == ([1, 2], [1, 2, 3], [1, 2, 4, 5])
    assert (base.state, left.state, right.state) == (10, 11, 12)


def test_a_trajectory_of_no_actions_is_its_benchmark() -> None:
    assert (START.actions(), START.length, START.state) == ([], 0, 5)


def test_an_action_may_be_any_value() -> None:
    assert START.extended([None, "text", (1, 2), 0], 1).actions() == [None, "text", (1, 2), 0]


def test_forks_of_a_long_trajectory_share_it() -> None:
    long = START.extended(range(100_000), 1)
    tracemalloc.start()
    forks = [long.extended([number], number) for number in range(1000)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 3_000_000  # copies would take 800 MB
    assert forks[7].actions() == [*range(100_000), 7]


def test_a_very_long_trajectory_can_be_read_and_dropped() -> None:
    trajectory = START
    for number in range(300_000):
        trajectory = trajectory.extended([1], number)
    assert len(trajectory.actions()) == 300_000
    del trajectory


def test_a_long_line_of_forks_can_be_read_and_dropped() -> None:
    trajectory = START
    for number in range(100_000):
        trajectory.extended([2], number)
        trajectory = trajectory.extended([1], number)
    assert trajectory.actions() == [1] * 100_000
    del trajectory  # frees a chain of as many objects: recursion would overflow the stack
