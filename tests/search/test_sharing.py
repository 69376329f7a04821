"""What lists have in common is done once, and states that are known are not computed again."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.search._dispatcher import Memory
from aiocg.search._prefix_evaluation import WORTH, share
from aiocg.search.tuner import FAILED, Outcome

from .toy import STEPS, outcome_of

LISTS = st.lists(st.lists(st.sampled_from("abc"), max_size=7).map(tuple), max_size=24)


@given(LISTS)
def test_each_list_is_in_one_group_and_begins_as_the_others_there(lists: list[tuple[str, ...]]) -> None:
    groups = share(lists)
    assert sorted(itertools.chain.from_iterable(members for _, members in groups)) == list(range(len(lists)))
    for prefix, members in groups:
        assert all(lists[index][: len(prefix)] == prefix for index in members)


def actions_done(lists: list[tuple[str, ...]]) -> int:
    """Count the actions that are executed when states are gone to from what is already known, and lists tried there."""
    known: set[tuple[str, ...]] = {()}
    done = 0
    for prefix, members in share(lists):
        nearest = max(at for at in range(len(prefix) + 1) if prefix[:at] in known)
        done += len(prefix) - nearest
        known.add(prefix)
        done += sum(len(lists[index]) - len(prefix) for index in members)
    return done


def test_what_many_lists_begin_with_is_done_once() -> None:
    trunk = tuple("abcabcabca")
    lists = [(*trunk, one, other) for one in "abc" for other in "abc"]
    assert actions_done(lists) == len(trunk) + 2 * len(lists)


def test_branches_of_branches_are_shared_too() -> None:
    trunk, left, right = tuple("abcabcab"), tuple("aaaa"), tuple("bbbb")
    lists = [(*trunk, *branch, one) for branch in (left, right) for one in "abc"]
    assert actions_done(lists) == len(trunk) + len(left) + len(right) + len(lists)


def test_lists_that_go_on_where_others_end_are_one_group() -> None:
    walk = tuple("abcabcab")
    lists = [walk[:length] for length in range(3, 9)]
    assert share(lists) == [(walk[:3], [0, 1, 2, 3, 4, 5])]


def test_it_is_not_worth_going_anywhere_for_little() -> None:
    assert WORTH > 1
    assert share([("a", "b"), ("a", "c"), ("b",)]) == [((), [0, 1, 2])]


# ------------------------------------------------------------------------------------------------------------ memory


def learned(memory: Memory, *actions: str) -> None:
    form = memory.form(actions)
    memory.learn(actions, form, outcome_of(form))


def test_a_list_that_leads_where_another_led_has_its_form() -> None:
    memory = Memory(merging=True)
    learned(memory)
    learned(memory, "double")
    learned(memory, "increment", "increment", "increment")
    assert memory.form(("increment", "increment", "increment", "square")) == ("double", "square")
    assert memory.form(("square",)) == ("square",)


def test_actions_without_effect_are_not_part_of_a_form() -> None:
    memory = Memory(merging=True)
    learned(memory)
    learned(memory, "nothing")
    learned(memory, "double", "nothing")
    assert memory.form(("nothing", "nothing", "double", "nothing", "square")) == ("double", "square")


def test_where_the_way_matters_every_list_is_a_form_of_its_own() -> None:
    memory = Memory(merging=False)
    learned(memory, "nothing")
    assert memory.form(("nothing", "double")) == ("nothing", "double")


@pytest.mark.parametrize("merging", [True, False])
def test_what_begins_with_a_list_that_fails_fails(merging: bool) -> None:
    memory = Memory(merging=merging)
    assert not memory.fails(("double", "refuse", "double"))
    memory.learn(("double", "refuse"), ("double", "refuse"), Outcome(FAILED))
    assert memory.fails(("double", "refuse")) and memory.fails(("double", "refuse", "double"))
    assert not memory.fails(("double",))


@given(st.lists(st.lists(st.sampled_from(sorted({*STEPS} - {"refuse"})), max_size=6).map(tuple), max_size=30))
def test_a_form_leads_to_the_same_state(lists: list[tuple[str, ...]]) -> None:
    memory = Memory(merging=True)
    for actions in lists:
        form = memory.form(actions)
        assert outcome_of(form).state == outcome_of(actions).state
        memory.learn(actions, form, outcome_of(form))
