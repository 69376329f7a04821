"""The memory itself: what it answers, how long it takes at most, and what becomes of it when a place fails."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from aiocg.workers.memory.memory import Memory, _Tier
from aiocg.workers.memory.records import PATIENT, Record, Step, encode, key_of

CONTEXT = b"context of tests    "
LONG = 60.0  # seconds; nothing takes so long
STEPS: list[Step] = [(1, "gvn"), (1, "dce"), (2, "gvn")]


class Place:
    """A place in this process, which can be stuck."""

    def __init__(self) -> None:
        self.contents: dict[bytes, bytes] = {}
        self.asked = self.writes = 0
        self.problem = ""
        self.goes_on = threading.Event()
        self.goes_on.set()

    def find(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        self.asked += 1
        self.goes_on.wait(LONG)
        return {key: self.contents[key] for key in keys if key in self.contents}

    def write(self, contents: Mapping[bytes, bytes]) -> None:
        self.writes += 1
        self.goes_on.wait(LONG)
        self.contents |= contents


def memory_in(*places: _Tier, patience: float = LONG) -> Memory:
    return Memory(lambda: places, lambda: CONTEXT, patience)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_what_one_puts_another_finds() -> None:
    place = Place()
    one, other = memory_in(place), memory_in(place)
    assert one.find(STEPS) == {}
    one.put(STEPS[0], 7, 20, {"object_text_size": 5, "cloned": True})
    one.put(STEPS[1], 1, 21, {})
    until(lambda: len(place.contents) == 2)
    found = other.find(STEPS)
    assert found.keys() == set(STEPS[:2])
    assert found[STEPS[0]] == (7, 20, {"object_text_size": 5})
    assert (other.hits, other.misses, one.misses, one.written) == (2, 1, 3, 2)


def test_what_becomes_known_until_it_is_written_is_written_too() -> None:
    place, memo = Place(), {"object_text_size": 5}
    memory = memory_in(place)
    place.goes_on.clear()
    memory.put(STEPS[1], 1, 1, {})
    until(lambda: place.writes)  # which it is busy with now
    memory.put(STEPS[0], 7, 20, memo)
    memo["object_text_size-minsize"] = 4
    place.goes_on.set()
    until(lambda: len(place.contents) == 2)
    assert memory.find(STEPS[:1])[STEPS[0]].facts == memo


def test_place_that_is_stuck_costs_one_wait_and_is_not_asked_again_until_it_answers() -> None:
    place = Place()
    memory = memory_in(place, patience=0.002)
    place.goes_on.clear()
    for _ in range(100):
        assert memory.find(STEPS) == {}
    until(lambda: place.asked)  # its thread may not have begun yet
    assert (memory.late, place.asked) == (1, 1)
    place.goes_on.set()
    memory._patience = LONG
    until(lambda: memory.find(STEPS) == {} and memory.misses)


def test_place_that_is_always_late_is_left_alone() -> None:
    place = Place()
    memory = memory_in(place, patience=0.0)
    for number in range(1, PATIENT + 1):
        place.goes_on.clear()
        until(lambda: memory.find(STEPS) == {} and memory.late == number)  # noqa: B023
        place.goes_on.set()
        until(lambda: not memory._last.answered.locked())  # type: ignore[union-attr]
    asked = place.asked
    assert memory.find(STEPS) == {}
    assert place.asked == asked and memory.late == PATIENT


def test_what_was_not_written_in_time_is_dropped_and_nobody_waits() -> None:
    place = Place()
    place.goes_on.clear()
    memory = memory_in(place)
    for number in range(30_000):
        memory.put((number, "gvn"), number + 1, 1, {})
    assert memory.written < 21_000
    place.goes_on.set()


def test_second_place_is_asked_for_what_the_first_has_not_which_learns_it() -> None:
    near, far = Place(), Place()
    memory_in(far).put(STEPS[0], 7, 20, {})
    memory_in(near).put(STEPS[1], 8, 21, {})
    until(lambda: near.contents and far.contents)
    memory = memory_in(near, far)
    assert memory.find(STEPS).keys() == set(STEPS[:2])
    until(lambda: len(near.contents) == 2)
    asked = far.asked
    assert memory.find(STEPS[:2]).keys() == set(STEPS[:2])
    assert far.asked == asked


def test_place_that_answers_garbage_has_nothing() -> None:
    place = Place()
    keys = [key_of(CONTEXT, step) for step in STEPS]
    of_another = encode(keys[0], Record(7, 1, {}))
    place.contents = {keys[0]: b"\xff" * 60, keys[1]: b"", keys[2]: of_another}
    assert memory_in(place).find(STEPS) == {}


def test_memory_whose_place_cannot_be_opened_has_nothing() -> None:
    def fail() -> Sequence[_Tier]:
        raise ImportError("no module named redis")

    memory = Memory(fail, lambda: CONTEXT, 0.0)
    memory.put(STEPS[0], 7, 20, {})
    assert memory.find(STEPS) == {}
