"""Behavioural cloning: demonstrations out of files of transitions and saved states of searches."""

import heapq
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from aiocg.policies import PolicyError
from aiocg.rl.programs import STARTS, Program
from aiocg.rl.vector import Plan
from aiocg.transitions import Transitions

__all__ = ["Demonstration", "demonstrations", "plans_of"]

STRONGER = "OzMinsize"
FOR_SIZE = ("IrInstructionCountOzMinsize", "IrInstructionCountOz", "IrInstructionCountNorm", "IrInstructionCount")

Edges = dict[int, list[tuple[float, tuple[str, ...], int]]]  # by state: reward, actions, next state


class Demonstration(NamedTuple):
    """What somebody did to a program.

    Attributes:
        uri: the program.
        actions: texts of the actions, from the program as it came.
    """

    uri: str
    actions: tuple[str, ...]


def demonstrations(path: Path, actions: Sequence[str]) -> list[Demonstration]:
    """Return the best way through each program of a file of transitions, from each start, by given actions only.

    Args:
        path: a file that `aiocg search --log` or `Runtime.log_to` wrote.
        actions: their texts.

    Raises:
        TransitionsError: when the file cannot be used.
        PolicyError: when it has no way that gains anything.
    """
    usable = set(actions)
    found = []
    with Transitions(path) as file:
        edges: Edges = {}
        stronger: dict[int, int] = {}
        for one in file:
            reward = next((one.rewards[name] for name in FOR_SIZE if name in one.rewards), None)
            if one.next is None or one.next == one.state or reward is None:
                continue
            if one.actions == STARTS[STRONGER]:
                stronger[one.state] = one.next
            elif usable.issuperset(one.actions):
                edges.setdefault(one.state, []).append((reward, one.actions, one.next))
        for uri, state in file.benchmarks():
            begun: list[tuple[tuple[str, ...], int]] = [] if state is None else [((), state)]
            if state in stronger:
                begun.append((STARTS[STRONGER], stronger[state]))
            ways = [(prefix, _best_way(edges, place)) for prefix, place in begun]
            found += [Demonstration(uri, (*prefix, *way)) for prefix, way in ways if way]
    if not found:
        raise PolicyError(f"{path} has no list of the policy's actions that makes a program smaller")
    return found


def _best_way(edges: Edges, start: int) -> tuple[str, ...]:
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
