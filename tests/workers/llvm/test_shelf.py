"""The shelf of parsed modules: what is kept, what is freed, and when."""

import pytest

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.shelf import Parsed, Shelf
from aiocg.workers.llvm.states import State

TEXT = b"define i32 @f%d() {\n  ret i32 0\n}\n"
SIZE = Shelf.GROWTH * len(TEXT % 0)


def parsed(library: Library, state: State) -> Parsed:
    return Parsed(Module.parse(library, state.content), 1)


def is_closed(one: Parsed) -> bool:
    try:
        return not one.module.pointer
    except ValueError:
        return True


@pytest.fixture
def states() -> list[State]:
    return [State(TEXT % number) for number in range(4)]


def test_what_is_taken_is_no_longer_there_and_not_freed(library: Library, states: list[State]) -> None:
    shelf = Shelf(10 * SIZE)
    shelf.put(states[0], one := parsed(library, states[0]))
    assert shelf.get(states[0]) is one
    assert (states[0] in shelf, len(shelf), shelf.size) == (True, 1, SIZE)
    assert shelf.take(states[0]) is one
    assert (states[0] in shelf, len(shelf), shelf.size) == (False, 0, 0)
    assert shelf.take(states[0]) is shelf.get(states[0]) is None
    assert not is_closed(one)
    one.module.close()


def test_least_recently_used_is_freed_first(library: Library, states: list[State]) -> None:
    shelf = Shelf(2 * SIZE)
    modules = [parsed(library, state) for state in states]
    shelf.put(states[0], modules[0])
    shelf.put(states[1], modules[1])
    shelf.get(states[0])
    shelf.put(states[2], modules[2])
    assert [is_closed(one) for one in modules] == [False, True, False, False]
    assert shelf.size == 2 * SIZE
    shelf.put(states[3], modules[3])
    assert [is_closed(one) for one in modules] == [True, True, False, False]
    shelf.clear()
    assert all(map(is_closed, modules))
    assert shelf.size == 0


def test_last_one_is_kept_even_if_it_is_too_large(library: Library, states: list[State]) -> None:
    shelf = Shelf(0)
    modules = [parsed(library, state) for state in states[:2]]
    shelf.put(states[0], modules[0])
    assert not is_closed(modules[0])
    shelf.put(states[1], modules[1])
    assert [is_closed(one) for one in modules] == [True, False]
    shelf.clear()


def test_another_module_of_a_state_takes_the_place_of_the_first(library: Library, states: list[State]) -> None:
    shelf = Shelf(10 * SIZE)
    first, second = parsed(library, states[0]), parsed(library, states[0])
    shelf.put(states[0], first)
    shelf.put(states[0], second)
    assert (is_closed(first), is_closed(second)) == (True, False)
    assert (len(shelf), shelf.size) == (1, SIZE)
    shelf.clear()
