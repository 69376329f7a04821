"""Which pass is likely to make a function smaller, by the passes beside it: learned from functions of other programs.

`python -m bench.pass_model` makes the file. It is a logistic regression: the logit of a pass is the sum of a number of
its own, one for the pass before it, and one for the pass behind it.
"""

import random
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["PassModel", "pass_model"]

FILE = "pass_model.npz"
TRUST = 0.75  # in the model; the rest is shared by all passes


class PassModel(NamedTuple):
    """The logits of passes.

    Attributes:
        passes: their texts.
        alone: the logit of each, shape (passes,).
        behind: what is added by the pass before it, shape (passes + 1, passes); the last row is for none.
        before: what is added by the pass behind it, shape (passes + 1, passes); the last row is for none.
        known: weights that were asked for, one after the other added up, by the places of both passes.
    """

    passes: tuple[str, ...]
    alone: NDArray[np.floating[Any]]
    behind: NDArray[np.floating[Any]]
    before: NDArray[np.floating[Any]]
    known: dict[tuple[str | None, str | None], list[float]]

    def choose(self, rng: random.Random, first: str | None, last: str | None) -> str:
        """Return a pass to stand between two others, at random by how likely it is to help.

        Args:
            rng: for the choice.
            first, last: the passes; None at the beginning and at the end.
        """
        if (first, last) not in self.known:
            self.known[first, last] = list(accumulate(self.weights(first, last).tolist()))
        return rng.choices(self.passes, cum_weights=self.known[first, last])[0]

    def weights(self, first: str | None, last: str | None) -> NDArray[np.float64]:
        """Return how likely each pass is to be the right one between two others; the sum is 1."""
        logits = (self.alone + self.behind[self._place(first)] + self.before[self._place(last)]).astype(np.float64)
        likely = np.exp(logits - logits.max())
        return TRUST * likely / likely.sum() + (1 - TRUST) / len(self.passes)

    def _place(self, text: str | None) -> int:
        return len(self.passes) if text is None else self.passes.index(text)

    @classmethod
    def of(cls, arrays: Any) -> Self:
        """Return the model that arrays of a file have."""
        texts = tuple(arrays["passes"].tolist())
        return cls(texts, arrays["alone"], arrays["behind"], arrays["before"], {})


@cache
def pass_model() -> PassModel:
    """Return the model that comes along."""
    with (files(__package__) / FILE).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return PassModel.of(arrays)
