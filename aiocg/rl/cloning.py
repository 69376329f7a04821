"""Behavioural cloning: demonstrations out of files of transitions and saved states of searches."""

import heapq
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from aiocg.policies.policy import PolicyError
from aiocg.rl.programs import STARTS, Program
from aiocg.rl.vector import Plan
from aiocg.transitions import Transitions

__all__ = ["Demonstration", "demonstrations", "plans_of"]

STRONGER = "OzMinsize"
FOR_SIZE = ("IrInstructionCountOzMinsize", "IrInstructionCountOz", "IrInstructionCountNorm", "IrInstructionCount")


class Demonstration(NamedTuple):
    """What somebody did to a program.

    Attributes:
        uri: the program.
        actions: texts of the actions, from the program as it came.
    """

    uri: str
    actions: tuple[str, ...]


def demonstrations(path: Path, actions: Sequence[str]) -> list[Demonstration]:
    """Return the best way through each program of a file of transitions that consists of given actions.

    Args:
        path: a file that `aiocg search --log` or `Runtime.log_to` wrote.
        actions: texts; other actions are not gone by, but for the two of the start `OzMinsize`.

    Raises:
        TransitionsError: when the file cannot be used.
        PolicyError: when it has no way that gains anything.
    """
    usable = {*actions, *STARTS[STRONGER]}
    with Transitions(path) as file:
        edges: dict[int, list[tuple[float, tuple[str, ...], int]]] = {}
        for one in file:
            reward = next((one.rewards[name] for name in FOR_SIZE if name in one.rewards), None)
            if one.next not in (None, one.state) and reward is not None and usable.issuperset(one.actions):
                assert one.next is not None
                edges.setdefault(one.state, []).append((reward, one.actions, one.next))
        found = [
            Demonstration(uri, way)
            for uri, state in file.benchmarks()
            if state is not None and (way := _best_way(edges, state))
        ]
    if not found:
        raise PolicyError(
            f"{path} has no list of the policy's actions that makes a program smaller: nothing to imitate"
        )
    return found


def _best_way(edges: dict[int, list[tuple[float, tuple[str, ...], int]]], start: int) -> tuple[str, ...]:
    """Return the shortest way to the state with the highest sum of rewards, which depends on the state only."""
    ways: dict[int, tuple[float, tuple[str, ...]]] = {}
    heap: list[tuple[int, int, float, tuple[str, ...]]] = [(0, start, 0.0, ())]
    while heap:
        _, state, total, way = heapq.heappop(heap)
        if state in ways:
            continue
        ways[state] = total, way
        for reward, actions, after in edges.get(state, ()):
            if after not in ways:
                heapq.heappush(heap, (len(way) + len(actions), after, total + reward, (*way, *actions)))
    total, way = max(ways.values(), key=lambda one: (round(one[0], 9), -len(one[1])))
    return way if total > 0 else ()


def plans_of(shown: Iterable[Demonstration], programs: Iterable[Program], actions: Sequence[str]) -> list[Plan]:
    """Return plans that do what was shown, for those programs that are at hand.

    Args:
        shown: the demonstrations.
        programs: prepared programs.
        actions: texts of the actions that have numbers; others are left out.
    """
    known, numbers = {one.uri: one for one in programs}, {text: number for number, text in enumerate(actions)}
    plans = []
    for one in shown:
        program, start, left = known.get(one.uri), "O0", one.actions
        if left[: len(STARTS[STRONGER])] == STARTS[STRONGER]:
            start, left = STRONGER, left[len(STARTS[STRONGER]) :]
        chosen = tuple(numbers[text] for text in left if text in numbers)
        if program is not None and start in program.starts and chosen:
            plans.append(Plan(program, start, actions=chosen))
    return plans
