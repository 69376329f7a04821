"""The flat list of actions: each changes one option of the command line.

An option of few choices has an action for each of them; one of many has actions that go some choices up or down. The
rules, the names and the steps are CompilerGym's.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aiocg.transport.messages import ActionSpec
from aiocg.transport.options import UNSET, Option

__all__ = ["Edit", "apply", "edits"]

_FEW = 10  # choices from which on an option is changed in steps
_STEPS = ((10, 1), (50, 10), (500, 100), (5000, 1000))  # choices from which on there is a step, and that


class Edit(NamedTuple):
    """An action: a choice for the option at `option` in the list, or where `step` is not 0, so many choices further."""

    action: ActionSpec
    option: int
    last: int  # the option's last choice
    choice: int = UNSET
    step: int = 0


def edits(options: Iterable[Option]) -> tuple[Edit, ...]:
    """Return the edits of each option, in the order of the options; no two have the same name."""
    found = []
    for index, option in enumerate(options):
        if len(option) < _FEW:
            for choice in range(len(option)):
                found.append(Edit(ActionSpec(option.word(choice), option.description), index, len(option) - 1, choice))
            continue
        for least, step in _STEPS:
            for signed in (step, -step) if len(option) >= least else ():
                action = ActionSpec(f"{option.name}[{signed:+}]", option.description)
                found.append(Edit(action, index, len(option) - 1, step=signed))
    return tuple(found)


def apply(edit: Edit, choices: Sequence[int]) -> tuple[int, ...]:
    """Return the choices after an edit; they are equal to those before when it changed nothing.

    A step ends at the last choice, and downwards at the option not being given.
    """
    before = choices[edit.option]
    after = min(max(before + edit.step, UNSET), edit.last) if edit.step else edit.choice
    return (*choices[: edit.option], after, *choices[edit.option + 1 :])
