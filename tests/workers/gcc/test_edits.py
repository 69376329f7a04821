"""The flat list of actions: which there are, and what they do to choices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.transport.options import UNSET, Option
from aiocg.workers.gcc.session import _apply, edits

FLAG = Option("-fgcse", "flag", "Do it.", ("-fgcse", "-fno-gcse"))
NUMBER = Option("--param=x", "param", "", (), "--param=x={}", 0, 2**31 - 1)


def of(count: int) -> Option:
    """Return an option of so many choices."""
    return Option("--param=y", "param", "", (), "--param=y={}", 5, count + 4)


def test_an_option_of_few_choices_has_an_edit_for_each_and_one_of_many_has_steps() -> None:
    found = edits([FLAG, NUMBER])
    assert [edit.action.name for edit in found] == [
        "-fgcse",
        "-fno-gcse",
        *[f"--param=x[{step}]" for step in ("+1", "-1", "+10", "-10", "+100", "-100", "+1000", "-1000")],
    ]
    assert [edit.option for edit in found] == [0] * 2 + [1] * 8
    assert found[0].action.description == "Do it."


@pytest.mark.parametrize(
    ("choices", "count"), [(1, 1), (9, 9), (10, 2), (49, 2), (50, 4), (499, 4), (500, 6), (4999, 6), (5000, 8)]
)
def test_the_number_of_edits_follows_the_number_of_choices(choices: int, count: int) -> None:
    assert len(edits([of(choices)])) == count


def test_edits_stop_at_the_ends() -> None:
    by_name = {edit.action.name: edit for edit in edits([FLAG, NUMBER])}
    assert _apply(by_name["-fno-gcse"], (UNSET, UNSET)) == (1, UNSET)
    assert _apply(by_name["--param=x[+1]"], (UNSET, UNSET)) == (UNSET, 0)
    assert _apply(by_name["--param=x[-1000]"], (0, 30)) == (0, UNSET)
    assert _apply(by_name["--param=x[+10]"], (0, 2**31 - 3)) == (0, 2**31 - 1)
    assert _apply(by_name["--param=x[+1]"], (0, 2**31 - 1)) == (0, 2**31 - 1)


@given(st.data())
def test_an_edit_changes_its_own_option_only_and_leaves_a_choice(data: st.DataObject) -> None:
    options = [FLAG, of(data.draw(st.integers(1, 12))), of(data.draw(st.sampled_from([60, 600, 6000])))]
    state = tuple(data.draw(st.integers(UNSET, len(option) - 1)) for option in options)
    edit = data.draw(st.sampled_from(edits(options)))
    after = _apply(edit, state)
    assert [index for index in range(3) if after[index] != state[index]] in ([], [edit.option])
    assert UNSET <= after[edit.option] < len(options[edit.option])
    if not edit.step:
        assert options[edit.option].word(after[edit.option]) == edit.action.name
        assert _apply(edit, after) == after
