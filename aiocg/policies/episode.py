"""What an agent knows of one episode of phase ordering."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Episode"]


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
        """Take note of what an action did, and return what it earned: the logarithm of best before to best after.

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
        return math.log(max(before, 1.0) / max(self.best, 1.0))

    def fail(self, action: int) -> None:
        """Take note that the compiler refused an action; the state is as it was."""
        self.mask[action] = False

    @property
    def over(self) -> bool:
        """Whether no step is left."""
        return len(self.taken) >= self.steps
