"""What each action gains, out of a file of transitions: states in which all of them were tried."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aiocg.transitions import Transitions

OBSERVATIONS = ("InstCount", "Autophase")


class Rows(NamedTuple):
    """States in which all actions were tried.

    Attributes:
        program: of each.
        counts: of its instructions.
        gains: of each action, as the logarithm of instructions before over after.
        effects: whether each action does anything.
    """

    program: Any
    counts: Any
    gains: Any
    effects: Any

    def of(self, mask: Any) -> "Rows":
        """Return some of them."""
        return Rows(*(column[mask] for column in self))


def read(path: Path) -> tuple[list[str], Rows]:
    """Return the actions, and the states in which nearly all of them were tried."""
    with Transitions(path) as file:
        uris = {uri for uri, _ in file.benchmarks()}
        size = {state: n for _, state, n in file.observations("IrInstructionCount", uris)}
        actions = [text for text in file.actions() if text != "default<Oz>"]
        numbers = {text: number for number, text in enumerate(actions)}
        found: dict[int, Any] = {}
        programs: dict[int, str] = {}
        for one in file:
            after = one.state if one.next is None else one.next
            if len(one.actions) == 1 and one.actions[0] in numbers and size.get(one.state) and size.get(after):
                row = found.setdefault(one.state, np.full((2, len(actions)), np.nan, np.float32))
                row[:, numbers[one.actions[0]]] = np.log(size[one.state] / size[after]), after != one.state
                programs[one.state] = one.benchmark
        states = [state for state, row in found.items() if np.isnan(row[0]).mean() < 0.1]
        seen = [[file.observation(state, name) for name in OBSERVATIONS] for state in states]
    gains, effects = np.nan_to_num(np.array([found[state] for state in states])).swapaxes(0, 1)
    counts = np.array([np.concatenate(values) for values in seen], np.float32)
    return actions, Rows(np.array([programs[state] for state in states]), counts, gains, effects)
