"""Finds the objects that break the check."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from aiocg.validation.minimize import delta_debug

T = TypeVar("T")

_FUNCTION = re.compile(r'@(?:[^"(\s]+|"[^"]*")\(')


@dataclass(frozen=True, slots=True)
class Step:
    """One pass on one function, or an action on the whole module.

    Attributes:
        action: the number of the action that it is a part of.
        function: the function's name with its `@`; "" for an action on the module.
        text: the pass, or the action.
    """

    action: int
    function: str
    text: str


def guilty(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return few items without which the check holds; all if there is no smaller set.

    Args:
        items: what was changed; the check fails with all of them and holds with none.
        fails: whether the check fails with some of them.
    """
    found: list[T] = []
    left = list(items)
    while left and fails(left):
        culprits = least(left, fails)
        if not culprits:
            return list(items)  # the check does not always say the same
        found += culprits
        left = [item for item in left if item not in culprits]
    return found


def least(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> tuple[T, ...]:
    """Return a set of items with which the check fails, and without any one of them it does not.

    Args:
        items: with which it fails.
        fails: whether it does with some of them.
    """
    search = delta_debug(tuple(items))
    try:
        candidates = next(search)
        while True:
            candidates = search.send(next((n for n, one in enumerate(candidates) if fails(one)), None))
    except StopIteration as done:
        found: tuple[T, ...] = done.value
        return found


def steps_of(actions: Sequence[str]) -> list[Step]:
    """Take actions apart into what can be left out on its own."""
    steps = []
    for number, action in enumerate(actions):
        if not _FUNCTION.match(action):
            steps.append(Step(number, "", action))
            continue
        at = 0
        while match := _FUNCTION.match(action, at):
            passes, at = _enclosed(action, match.end())
            steps += [Step(number, match[0][:-1], one) for one in passes]
    return steps


def actions_of(steps: Sequence[Step]) -> tuple[str, ...]:
    """Return the actions that steps in their order are."""
    actions: list[str] = []
    before: Step | None = None
    for step in steps:
        if not step.function:
            actions.append(step.text)
        elif before is None or before.action != step.action:
            actions.append(f"{step.function}({step.text})")
        elif before.function == step.function:
            actions[-1] = f"{actions[-1][:-1]},{step.text})"
        else:
            actions[-1] += f"{step.function}({step.text})"
        before = step
    return tuple(actions)


def _enclosed(text: str, start: int) -> tuple[list[str], int]:
    """Return the passes up to the parenthesis that closes, and the place after it."""
    passes, depth, quoted, begin = [], 0, False, start
    for at in range(start, len(text)):
        character = text[at]
        if character == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif character in "(<":
            depth += 1
        elif character in ">)" and depth:
            depth -= 1
        elif not depth and character in ",)":
            passes.append(text[begin:at])
            begin = at + 1
            if character == ")":
                return passes, at + 1
    return [*passes, text[begin:]], len(text)
