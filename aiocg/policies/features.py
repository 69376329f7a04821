"""An agent's view of an episode of phase ordering: its state, and features normalised for programs of any size.

The names of the parts, their widths and what they are:

============= ========= ============= ==========================================================================
part          width     range         what
============= ========= ============= ==========================================================================
`instcount`   70        [0, 1]        logarithm of the number of instructions, to 2^20; blocks, functions and
                                      instructions by opcode, each divided by the number of instructions
`autophase`   56        [0, 1]        Autophase (Huang et al., MLSys 2020) divided by the number of instructions
`histogram`   actions   [0, 1]        how often each action was taken, divided by the steps of an episode
`steps`       1         [0, 1]        steps left, divided by the steps of an episode
`costs`       5         [-2, 2]       logarithms: instructions to those unoptimised, to those after -Oz (of the
                                      program marked `minsize`), and to the least so far; and the hyperbolic
                                      tangent of ten times the last two, in which one per cent can be seen
============= ========= ============= ==========================================================================

What is greater than its range says is cut off there: few Autophase features are, of tiny programs.

A policy for single functions sees each by itself, and has one part only:

============= ========= ============= ==========================================================================
`function`    221       [0, 1]        what IR2Vec counts (opcodes, types, operands, predicates of comparisons), as
                                      logarithms, to 2^14, and as square roots of how many there are by
                                      instruction; and the logarithm of the number of instructions
============= ========= ============= ==========================================================================
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["COSTS", "COUNTED", "COUNTS", "FUNCTION", "OBSERVED", "PARTS", "Episode", "Features", "worth"]


OUTSIDE, HIGHEST = 0.1, 0.3  # weight of what is not beyond the baseline; logarithm from which on more counts as little


def worth(cost: float, baseline: float) -> float:
    """Return what a program of some size is worth: the logarithm of how many times smaller it is than the baseline.

    What leads to the baseline counts a tenth, as there is twenty times as much to gain before as behind it, and so does
    what is beyond 1.35 times smaller: few programs, of which hardly anything is left, would count most otherwise.
    """
    gain = math.log(max(baseline, 1.0) / max(cost, 1.0))
    within = min(max(gain, 0.0), HIGHEST)
    return within + OUTSIDE * (gain - within)


class Episode:
    """The program at hand, how it came to be, and which actions are known to do nothing to it.

    Action number `actions` is to stop. An episode is scored by the best program on its way, so a step that makes the
    program larger loses nothing but the step.

    Args:
        actions: how many there are, without the one that stops.
        steps: that an episode may have.
        unoptimised: instructions of the program as it came.
        baseline: instructions after -Oz of the program marked `minsize`.
        counts: `InstCount` and, behind it, `Autophase` of the program that the episode begins with.
        state: its hash.

    Attributes:
        counts: of the present state, int64, shape (126,).
        cost: its number of instructions.
        best: the least cost so far.
        best_length: how many of the actions taken lead there.
        taken: the numbers of the actions taken.
        histogram: how often each was taken, float32, shape (actions,).
        mask: which actions may do something, bool, shape (actions + 1,); stopping always may.
    """

    __slots__ = (
        "_dead", "baseline", "best", "best_length", "cost", "counts", "histogram", "mask", "state", "steps", "taken",
        "unoptimised",
    )  # fmt: skip

    def __init__(
        self, actions: int, steps: int, unoptimised: float, baseline: float, counts: npt.NDArray[Any], state: int
    ) -> None:
        self.steps, self.unoptimised, self.baseline = steps, max(unoptimised, 1.0), max(baseline, 1.0)
        self.counts, self.state = counts, state
        self.cost = self.best = float(counts[0])
        self.best_length = 0
        self.taken: list[int] = []
        self.histogram = np.zeros(actions, np.float32)
        self.mask = np.ones(actions + 1, np.bool_)
        self._dead: dict[int, npt.NDArray[np.bool_]] = {state: self.mask}

    def advance(self, action: int, counts: npt.NDArray[Any], state: int, *, no_effect: bool) -> float:
        """Take note of what an action did, and return how much more the best program is `worth` than before.

        An action without effect is masked for as long as the episode is in this state, and when it comes back to it.
        """
        self.taken.append(action)
        self.histogram[action] += 1
        if no_effect:
            self.mask[action] = False
            return 0.0
        self.counts, self.state, self.cost = counts, state, float(counts[0])
        self.mask = self._dead.setdefault(state, np.ones_like(self.mask))
        before = self.best
        if self.cost < before:
            self.best, self.best_length = self.cost, len(self.taken)
        return worth(self.best, self.baseline) - worth(before, self.baseline)

    def fail(self, action: int) -> None:
        """Take note that the compiler refused an action; the state is as it was."""
        self.mask[action] = False

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return len(self.taken) >= self.steps


OBSERVED = ("InstCount", "Autophase")  # of each state, one behind the other
COUNTED = "Ir2vecFunctionLevelSymbolicCounts"  # of each function
INST_COUNT, AUTOPHASE, COSTS = 70, 56, 5
COUNTS = INST_COUNT + AUTOPHASE
PARTS: tuple[str, ...] = ("instcount", "autophase", "histogram", "steps", "costs")
FUNCTION: tuple[str, ...] = ("function",)
ENTITIES, OPCODES = 110, 68  # that IR2Vec counts, and how many of these, the first, are opcodes
_LARGEST_FUNCTION = 14 * math.log(2)
LARGEST = 20 * math.log(2)


class Features:
    """Computes features of several episodes at once.

    Args:
        actions: how many actions there are, without the one that stops.
        parts: which of `PARTS`, in their order; or `FUNCTION`, of single functions.

    Attributes:
        size: numbers of one state.

    Raises:
        ValueError: for a part that there is not.
    """

    def __init__(self, actions: int, parts: Sequence[str] = PARTS) -> None:
        self.actions = actions
        if tuple(parts) == FUNCTION:
            self.parts, self.size = FUNCTION, 2 * ENTITIES + 1
            return
        unknown = [part for part in parts if part not in PARTS]
        if unknown or not parts:
            raise ValueError(f"features are made of {', '.join(PARTS)}, not of {', '.join(unknown) or 'nothing'}")
        self.parts = tuple(part for part in PARTS if part in parts)
        widths = {"instcount": INST_COUNT, "autophase": AUTOPHASE, "histogram": actions, "steps": 1, "costs": COSTS}
        self.size = sum(widths[part] for part in self.parts)

    def __call__(self, episodes: Sequence[Episode]) -> npt.NDArray[np.float32]:
        """Return the features of the present state of episodes, float32, shape (episodes, size)."""
        if self.parts == FUNCTION:
            raise ValueError("a policy for single functions sees no whole programs: `aiocg search policy` follows it")
        found: list[Any] = []
        counts = np.stack([one.counts for one in episodes]).astype(np.float32)
        total = np.maximum(counts[:, :1], 1)
        if "instcount" in self.parts:
            found += [np.log(total) / LARGEST, counts[:, 1:INST_COUNT] / total]
        if "autophase" in self.parts:
            found.append(counts[:, INST_COUNT:] / total)
        steps = np.array([[one.steps] for one in episodes], np.float32)
        if "histogram" in self.parts:
            found.append(np.stack([one.histogram for one in episodes]) / steps)
        if "steps" in self.parts:
            found.append(1 - np.array([[len(one.taken)] for one in episodes], np.float32) / steps)
        unbounded = np.concatenate(found, 1) if found else np.zeros((len(episodes), 0), np.float32)
        np.clip(unbounded, 0, 1, out=unbounded)
        if "costs" not in self.parts:
            return unbounded
        others = np.array([[one.unoptimised, one.baseline, max(one.best, 1.0)] for one in episodes], np.float32)
        logs = np.log(total / others)
        return np.concatenate([unbounded, np.clip(logs, -2, 2), np.tanh(10 * logs[:, 1:])], 1)

    def of_functions(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the features of functions, float32, shape (functions, size), from what IR2Vec counts in each."""
        known = counts.astype(np.float32)
        total = known[:, :OPCODES].sum(1, keepdims=True)
        logs = np.log1p(np.concatenate([known, total], 1)) / _LARGEST_FUNCTION
        found = np.concatenate([logs, np.sqrt(known / np.maximum(total, 1))], 1)
        return np.clip(found, 0, 1, out=found)
