"""The shelf of modules: what is kept, what is freed, and when."""

import pytest

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.engine import CONTEXT_BYTES, DISPLACING, MOST_LEFT, _Shelf
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.states import State


def state_of(number: int, holders: int = 1) -> State:
    state = State(number)
    state.holders = holders
    return state


@pytest.fixture
def shelf() -> _Shelf:
    def save(state: State, module: Module) -> None:
        assert module.pointer
        state.content = b"saved"

    return _Shelf(2 * CONTEXT_BYTES, save)


def module(library: Library) -> Module:
    return Module.parse(library, b"define i32 @f() {\n  ret i32 0\n}\n")


def is_closed(one: Module) -> bool:
    try:
        return not one.pointer
    except ValueError:
        return True


def test_what_is_taken_is_no_longer_there_and_not_freed(library: Library, shelf: _Shelf) -> None:
    state, one = state_of(0), module(library)
    shelf.put(state, one)
    assert shelf.get(state) is one
    assert (state in shelf, len(shelf), shelf.size) == (True, 1, CONTEXT_BYTES)
    assert shelf.take(state) is one
    assert (state in shelf, len(shelf), shelf.size) == (False, 0, 0)
    assert shelf.take(state) is shelf.get(state) is None
    assert not is_closed(one)
    one.close()


def test_what_sessions_need_is_saved_before_it_is_freed(library: Library, shelf: _Shelf) -> None:
    states = [state_of(number) for number in range(4)]
    for state in states:
        shelf.put(state, module(library))
    assert shelf.size <= shelf.limit
    for state in states:
        assert (state in shelf) == (state.content is None)
    shelf.clear()
    assert {state.content for state in states} == {b"saved"}
    assert (len(shelf), shelf.size) == (0, 0)


def test_of_many_that_take_turns_some_stay_until_they_are_used(library: Library, shelf: _Shelf) -> None:
    states, found = [state_of(number) for number in range(8)], 0
    for _ in range(10):
        for state in states:
            found += state in shelf
            shelf.put(state, shelf.take(state) or module(library))
    assert found >= 8
    shelf.clear()


def test_old_ones_go_in_the_end(library: Library, shelf: _Shelf) -> None:
    old = [state_of(number) for number in range(2)]
    for state in old:
        shelf.put(state, module(library))
    for number in range(2, 2 + 2 * DISPLACING):
        shelf.put(state_of(number), module(library))
    assert not any(state in shelf for state in old)
    shelf.clear()


def test_states_that_no_session_is_at_go_first_and_are_not_saved(library: Library, shelf: _Shelf) -> None:
    held, left = state_of(0), state_of(1, holders=0)
    modules = [module(library) for _ in range(3)]
    shelf.put(left, modules[0])
    shelf.put(held, modules[1])
    shelf.put(state_of(2), modules[2])
    assert [is_closed(one) for one in modules] == [True, False, False]
    assert left.content is None
    held.holders = 0
    shelf.let_go(held)
    shelf.put(state_of(3), module(library))
    assert is_closed(modules[1])
    assert held.content is None
    shelf.clear()


def test_few_modules_of_such_states_are_kept_and_a_session_may_come_to_one(library: Library) -> None:
    shelf = _Shelf(1 << 30, lambda state, module: None)
    states = [state_of(number, holders=0) for number in range(MOST_LEFT + 2)]
    for state in states:
        shelf.put(state, module(library))
    assert [state in shelf for state in states] == [False] * 2 + [True] * MOST_LEFT
    states[2].holders = 1
    shelf.hold(states[2])
    for number in range(MOST_LEFT):
        shelf.put(state_of(100 + number, holders=0), module(library))
    assert states[2] in shelf
    assert states[3] not in shelf
    shelf.clear()


def test_last_one_is_kept_even_if_it_is_too_large(library: Library) -> None:
    shelf = _Shelf(0, lambda state, module: None)
    state, one = state_of(0), module(library)
    shelf.put(state, one)
    assert not is_closed(one)
    shelf.clear()


def test_another_module_of_a_state_takes_the_place_of_the_first(library: Library, shelf: _Shelf) -> None:
    state, first, second = state_of(0), module(library), module(library)
    shelf.put(state, first)
    shelf.put(state, second)
    assert (is_closed(first), is_closed(second)) == (True, False)
    assert (len(shelf), shelf.size) == (1, CONTEXT_BYTES)
    shelf.clear()
