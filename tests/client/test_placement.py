"""The choice of a worker for a new session."""

from hypothesis import given
from hypothesis import strategies as st

from aiocg.fleet.placement import WorkerLoad, choose_worker

LOADS = st.lists(st.builds(WorkerLoad, st.booleans(), st.integers(0, 5), st.integers(0, 5)), max_size=8)


def test_no_worker_is_chosen_when_none_is_usable() -> None:
    assert choose_worker([]) is None
    assert choose_worker([WorkerLoad(False, 0, 0), WorkerLoad(False, 1, 1)]) is None


def test_the_worker_with_the_fewest_sessions_is_chosen() -> None:
    assert choose_worker([WorkerLoad(True, 3, 0), WorkerLoad(True, 2, 9), WorkerLoad(True, 4, 0)]) == 1


def test_requests_in_flight_break_ties_and_then_the_order() -> None:
    assert choose_worker([WorkerLoad(True, 2, 5), WorkerLoad(True, 2, 4)]) == 1
    assert choose_worker([WorkerLoad(True, 2, 5), WorkerLoad(True, 2, 5)]) == 0


def test_ties_are_broken_forwards_and_backwards_in_turn() -> None:
    counts, chosen = [0, 0, 0], []
    for _ in range(9):
        index = choose_worker([WorkerLoad(True, count, 0) for count in counts])
        assert index is not None
        chosen.append(index)
        counts[index] += 1
    assert chosen == [0, 1, 2, 2, 1, 0, 0, 1, 2]


def test_an_idle_worker_that_is_given_up_is_passed_over() -> None:
    assert choose_worker([WorkerLoad(False, 0, 0), WorkerLoad(True, 100, 100)]) == 1


@given(LOADS)
def test_the_choice_is_usable_and_no_usable_one_has_fewer_sessions(loads: list[WorkerLoad]) -> None:
    chosen = choose_worker(loads)
    usable = [load for load in loads if load.usable]
    if chosen is None:
        assert not usable
    else:
        assert loads[chosen].usable
        assert loads[chosen].sessions == min(load.sessions for load in usable)


@given(st.integers(1, 8), st.integers(0, 64))
def test_sessions_placed_one_by_one_are_spread_evenly(workers: int, sessions: int) -> None:
    counts = [0] * workers
    for _ in range(sessions):
        chosen = choose_worker([WorkerLoad(True, count, 0) for count in counts])
        assert chosen is not None
        counts[chosen] += 1
    assert max(counts) - min(counts) <= 1
