"""States as values, their sharing, and the memory of transitions."""

import gc

from aiocg.workers.llvm.states import State, States, Transitions


def test_hash_is_64_bits_of_the_content_and_the_same_in_every_process() -> None:
    assert State(b"program").hash == 0xC83F0FE6D820E3BB
    assert State(b"program").hash != State(b"programs").hash


def test_equal_contents_are_one_state_while_it_is_in_use() -> None:
    states = States()
    first = states.intern(b"program")
    assert states.intern(bytes(bytearray(b"program"))) is first
    assert states.intern(b"other") is not first


def test_states_that_nobody_uses_are_forgotten() -> None:
    states = States()
    kept = states.intern(b"kept")
    for number in range(100):
        states.intern(b"%d" % number)
    gc.collect()
    assert len(states) == 1
    assert states.intern(b"kept") is kept


def test_colliding_hashes_do_not_mix_states_up() -> None:
    states = States()
    first = states.intern(b"one")
    other = State(b"two")
    states._alive[other.hash] = first  # as if both had this hash
    assert states.intern(b"two").content == b"two"


def test_transitions_are_remembered() -> None:
    transitions = Transitions(1 << 20)
    before, after = State(b"before"), State(b"after")
    assert transitions.get(before, "gvn") is None
    transitions.put(before, "gvn", after)
    assert transitions.get(State(b"before"), "gvn") is after
    assert transitions.get(before, "sroa") is None
    assert transitions.hits == 1


def test_transitions_stay_within_their_bytes_and_forget_the_least_recently_used() -> None:
    transitions = Transitions(10 * (1000 + Transitions.OVERHEAD))
    before = State(b"before")
    for number in range(10):
        transitions.put(before, f"pass{number}", State(b"%01000d" % number))
    assert transitions.size == transitions.limit
    assert transitions.get(before, "pass0") is not None
    transitions.put(before, "pass10", State(bytes(1000)))
    assert len(transitions) == 10
    assert transitions.size == transitions.limit
    assert transitions.get(before, "pass0") is not None
    assert transitions.get(before, "pass1") is None


def test_state_larger_than_all_of_the_memory_is_not_kept() -> None:
    transitions = Transitions(5000)
    before, small = State(b"before"), State(b"small")
    transitions.put(before, "gvn", small)
    transitions.put(before, "inline", State(bytes(6000)))
    assert transitions.get(before, "inline") is None
    assert transitions.get(before, "gvn") is small
