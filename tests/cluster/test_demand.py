"""How many machines a runtime wants, by how many requests wait."""

from hypothesis import given
from hypothesis import strategies as st

from aiocg.cluster._membership import GROW_AFTER, SHRINK_AFTER, Demand


def test_deep_queue_asks_for_half_as_many_machines_again_and_waits_for_them() -> None:
    demand = Demand(4)
    assert demand.looked(4, 8, 65, 0.0) == 4
    assert demand.looked(4, 8, 65, GROW_AFTER - 0.1) == 4
    assert demand.looked(4, 8, 65, GROW_AFTER) == 6
    assert demand.looked(4, 8, 650, 10 * GROW_AFTER) == 6  # they are not there yet
    assert demand.looked(6, 12, 650, 11 * GROW_AFTER) == 9


def test_queue_that_is_deep_for_a_moment_changes_nothing() -> None:
    demand = Demand(1)
    for turn in range(20):
        assert demand.looked(1, 2, 100 if turn % 2 else 1, turn * GROW_AFTER) == 1


def test_shallow_queue_gives_machines_back_one_at_a_time_but_not_those_of_the_beginning() -> None:
    demand = Demand(2)
    demand.looked(2, 4, 100, 0.0)
    assert demand.looked(2, 4, 100, GROW_AFTER) == 3
    demand.looked(3, 6, 100, GROW_AFTER + 1)
    assert demand.looked(3, 6, 100, 2 * GROW_AFTER + 1) == 4
    demand.looked(4, 8, 4, 100.0)
    assert demand.looked(4, 8, 4, 100.0 + SHRINK_AFTER) == 3
    assert demand.looked(3, 6, 0, 101.0 + SHRINK_AFTER) == 3
    assert demand.looked(3, 6, 0, 100.0 + 2 * SHRINK_AFTER) == 2
    assert demand.looked(2, 4, 0, 100.0 + 9 * SHRINK_AFTER) == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99), st.integers(0, 999), st.floats(0.1, 99.0))))
def test_wish_is_never_below_the_beginning_nor_far_beyond_what_is_there(
    looks: list[tuple[int, int, int, float]],
) -> None:
    demand, now = Demand(2), 0.0
    for machines, workers, requests, passed in looks:
        now, before = now + passed, demand.wanted
        wanted = demand.looked(machines, workers, requests, now)
        assert wanted >= 2
        assert wanted <= max(before, machines + max(1, machines // 2))
