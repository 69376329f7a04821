"""An agent's view of one episode of phase ordering."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Episode", "worth"]

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
