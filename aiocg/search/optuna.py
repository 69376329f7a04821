"""Optuna's tree-structured Parzen estimator over lists of actions, and over whole command lines."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, Unpack

import numpy as np

from aiocg.env.env import Env
from aiocg.search.driver import Options, Pace
from aiocg.search.encoding import Encoding
from aiocg.search.result import SearchResult
from aiocg.search.vectors import LENGTH, needed, search_vectors

__all__ = ["Optuna", "optuna"]

EVALUATIONS = 1000
PACE = Pace(batch=8, ahead=2)
STARTS = 20  # trials that are drawn before the sampler takes over


async def optuna(env: Env, *, seed: int = 0, length: int = LENGTH, **options: Unpack[Options]) -> SearchResult:
    """Let Optuna's TPE sampler choose an action, or none, for each place of a list.

    Where an action is a whole command line, it makes a choice for each option. Proposals take the longer the more there
    were: 14 ms each of the first 300 lists.

    Args:
        env: with a reward space, and an action space in which actions do not depend on the state.
        seed: of all random choices.
        length: actions of a list, at most.
        **options: see `aiocg.search.Options`; the budget is 1,000 evaluations if there is none.

    Raises:
        ValueError: when the actions depend on the state, and as `aiocg.search.tune` does.
        ImportError: when Optuna is not installed; `pip install 'aiocg[optuna]'` does that.
        ServiceError: see `aiocg.search.tune`.
    """
    return await search_vectors(
        env,
        lambda encoding: Optuna(encoding, seed),
        name="optuna",
        length=length,
        evaluations=EVALUATIONS,
        pace=PACE,
        **options,
    )


class Optuna:
    """Asks a study for trials, of which several are open at once; what fails is a failed trial."""

    def __init__(self, encoding: Encoding, seed: int) -> None:
        self._optuna = needed("optuna", "optuna")
        sampler = self._optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTS, multivariate=True)
        with _quiet(self._optuna):
            self._study = self._optuna.create_study(sampler=sampler)
        choices = _choices(self._optuna)
        self._distributions = {str(place): choices(range(size)) for place, size in enumerate(encoding.sizes)}
        rng = np.random.default_rng(seed)
        for _ in range(STARTS):
            self._study.enqueue_trial(dict(zip(self._distributions, encoding.draw(rng), strict=True)))

    def ask(self) -> tuple[Sequence[int], Any]:
        """Open a trial."""
        trial = self._study.ask(self._distributions)
        return [trial.params[name] for name in self._distributions], trial

    def tell(self, tag: Any, cost: float) -> None:
        """Close a trial."""
        if cost == math.inf:
            self._study.tell(tag, state=self._optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(tag, cost)


def _choices(optuna: Any) -> Any:
    """Return a class of distributions over 0, 1, ... which Optuna compares and copies thousands of times a trial."""

    class Choices(optuna.distributions.CategoricalDistribution):  # type: ignore[misc]
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Choices) and len(self.choices) == len(other.choices)

        __hash__ = optuna.distributions.CategoricalDistribution.__hash__

        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def to_internal_repr(self, value: int) -> int:
            return value

    return Choices


@contextlib.contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Keep Optuna from printing that it has made a study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
