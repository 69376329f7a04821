"""Features of a policy, normalised for programs of any size.

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

from aiocg.policies.episode import Episode

__all__ = ["COSTS", "COUNTED", "COUNTS", "FUNCTION", "OBSERVED", "PARTS", "Features"]

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
