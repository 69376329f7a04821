"""States, their sharing, and the memory of transitions."""

import gc

from aiocg.workers.llvm.states import State, States, Transitions


def anchored(number: int, size: int) -> State:
    state = State(number)
    state.anchor(bytes(size))
    return state


def test_hash_is_64_bits_of_the_fingerprint() -> None:
    assert State((7 << 64) + 5).hash == 5


def test_equal_programs_are_one_state_while_it_is_in_use() -> None:
    states = States()
    first = states.intern(1 << 100)
    assert states.intern(1 << 100, (first, "gvn")) is first
    assert first.origin is None
    assert states.intern(1 << 101) is not first


def test_states_that_nobody_uses_are_forgotten() -> None:
    states = States()
    kept = states.intern(0)
    for number in range(100):
        states.intern(number)
    gc.collect()
    assert len(states) == 1
    assert states.intern(0) is kept


def test_state_that_others_lead_to_stays_in_use() -> None:
    states = States()
    last = states.intern(0)
    for number in range(1, 10):
        last = states.intern(number, (last, "gvn"))
    gc.collect()
    assert (len(states), last.distance) == (10, 9)
    last.anchor(b"bitcode")
    gc.collect()
    assert (len(states), last.distance) == (1, 0)


def test_transitions_are_remembered() -> None:
    transitions = Transitions(1 << 20)
    before, after = State(1), State(2)
    assert transitions.get(before, "gvn") is None
    transitions.put(before, "gvn", after)
    assert transitions.get(State(1), "gvn") is after
    assert transitions.get(before, "sroa") is None
    assert transitions.hits == 1


def test_transitions_stay_within_their_bytes_and_forget_the_least_recently_used() -> None:
    transitions = Transitions(10 * (1000 + Transitions.OVERHEAD))
    before = State(0)
    for number in range(10):
        transitions.put(before, f"pass{number}", anchored(number + 1, 1000))
    assert transitions.size == transitions.limit
    assert transitions.get(before, "pass0") is not None
    transitions.put(before, "pass10", anchored(11, 1000))
    assert len(transitions) == 10
    assert transitions.size == transitions.limit
    assert transitions.get(before, "pass0") is not None
    assert transitions.get(before, "pass1") is None


def test_state_larger_than_all_of_the_memory_is_not_kept() -> None:
    transitions = Transitions(5000)
    before, small = State(0), State(1)
    transitions.put(before, "gvn", small)
    transitions.put(before, "inline", anchored(2, 6000))
    assert transitions.get(before, "inline") is None
    assert transitions.get(before, "gvn") is small
