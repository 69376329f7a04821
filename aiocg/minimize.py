"""Shrinking a list of actions that breaks something to the few that matter."""

import functools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aiocg.env import Env
from aiocg.errors import AiocgError
from aiocg.reduction import Strategy, bisect_prefix, delta_debug
from aiocg.search.lanes import open_lanes, spread

__all__ = ["Hypothesis", "MinimizationError", "Minimized", "minimize", "validation_fails"]

Hypothesis = Callable[[Env], Awaitable[bool]]
"""Tells whether what is looked for is true of an environment at its present state."""


class MinimizationError(AiocgError):
    """The whole list does not show what it was to show, so there is nothing to shrink.

    Attributes:
        actions: the list.
    """

    def __init__(self, actions: Sequence[str], flakiness: int) -> None:
        self.actions = tuple(actions)
        tries = "once" if flakiness == 1 else f"{flakiness} times"
        super().__init__(
            f"the hypothesis does not hold after all {len(self.actions)} actions (tried {tries}); "
            "if it is true only now and then, raise `flakiness`"
        )


@dataclass(frozen=True, slots=True)
class Minimized:
    """What is left of a list of actions.

    Attributes:
        actions: texts of the smallest list of actions found after which the hypothesis holds.
        evaluations: how many lists were tried.
        walltime: seconds.
    """

    actions: tuple[str, ...]
    evaluations: int
    walltime: float


async def validation_fails(env: Env, **options: Any) -> bool:
    """Is what the program does now something else than before?

    Args:
        env: an environment at the state in question.
        options: of `aiocg.validation`; without any, sanitizers do not watch, and a test is done once.
    """
    result = await env.validate(**{"sanitizers": (), "flakiness": 1, **options})
    return result.benchmark_semantics_validation_failed


async def minimize(
    env: Env,
    hypothesis: Hypothesis = validation_fails,
    actions: Iterable[str] | None = None,
    *,
    strategies: Iterable[Strategy[str]] = (bisect_prefix, delta_debug),
    flakiness: int = 1,
    failing: Callable[[Exception], bool] | None = None,
    lanes: int | None = None,
    progress: Callable[[tuple[str, ...]], None] | None = None,
) -> Minimized:
    """Find a small list of actions after which a hypothesis still holds.

    With the default strategies the result is 1-minimal: without any one of its actions the hypothesis does not hold. It
    does not depend on how many workers share the work. The environment is left at some list that was tried: reset it.

    Args:
        env: on the program in question.
        hypothesis: an async function of an environment that was reset and has applied a list of actions. Several are
            under way at once, on environments of their own.
        actions: texts of the actions to shrink; what the environment has done since its reset, if None.
        strategies: applied one after the other; see `aiocg.reduction`.
        flakiness: how often a list is tried before the hypothesis counts as not holding. Once is enough to hold.
        failing: tells, of the error with which a list of actions failed (a pass that crashes, say), whether that is
            what is looked for; if None, such a list does not hold. The hypothesis is not asked then.
        lanes: environments that share the work, one per worker if None.
        progress: called with each smaller list.

    Raises:
        MinimizationError: when the hypothesis does not hold after the whole list.
        ValueError: when `flakiness` is less than 1.
        AiocgError: what resetting, or the hypothesis, raises.
    """
    if flakiness < 1:
        raise ValueError(f"flakiness must be at least 1, not {flakiness}")
    started = time.monotonic()
    smallest = tuple(env.action_texts if actions is None else actions)
    async with open_lanes(env, lanes) as crew:
        trial = _Trial(crew, hypothesis, flakiness, failing)
        if await trial.first([smallest]) is None:
            raise MinimizationError(smallest, flakiness)
        for strategy in strategies:
            smallest = await _follow(strategy, smallest, trial, progress)
    return Minimized(smallest, trial.evaluations, time.monotonic() - started)


async def _follow(
    strategy: Strategy[str],
    actions: tuple[str, ...],
    trial: "_Trial",
    progress: Callable[[tuple[str, ...]], None] | None,
) -> tuple[str, ...]:
    """Answer what a strategy asks, and return what it comes to."""
    search, found = strategy(actions), None
    while True:
        try:
            candidates = search.send(found)
        except StopIteration as end:
            smallest: tuple[str, ...] = end.value
            return smallest
        found = await trial.first(candidates)
        if found is not None and progress is not None:
            progress(candidates[found])


class _Trial:
    """Tries lists of actions, several at a time, and remembers the verdicts."""

    def __init__(
        self, lanes: Sequence[Env], hypothesis: Hypothesis, flakiness: int, failing: Callable[[Exception], bool] | None
    ) -> None:
        self._lanes = lanes
        self._hypothesis = hypothesis
        self._flakiness = flakiness
        self._failing = failing
        self._verdicts: dict[tuple[str, ...], bool] = {}
        self.evaluations = 0

    async def first(self, candidates: Sequence[tuple[str, ...]]) -> int | None:
        """Return the index of the first list that holds; as many are tried at once as there are lanes."""
        width = len(self._lanes)
        for start in range(0, len(candidates), width):
            batch = candidates[start : start + width]
            unknown = dict.fromkeys(actions for actions in batch if actions not in self._verdicts)
            await spread(
                functools.partial(self._try, lane, actions) for lane, actions in zip(self._lanes, unknown, strict=False)
            )
            for index, actions in enumerate(batch, start):
                if self._verdicts[actions]:
                    return index
        return None

    async def _try(self, lane: Env, actions: tuple[str, ...]) -> None:
        self.evaluations += 1
        for _ in range(self._flakiness):
            if await self._holds(lane, actions):
                self._verdicts[actions] = True
                return
        self._verdicts[actions] = False

    async def _holds(self, lane: Env, actions: tuple[str, ...]) -> bool:
        await lane.reset()
        if actions:
            _, _, terminated, _, info = await lane.step_texts(actions, observation_spaces=[], reward_spaces=[])
            if terminated:
                return self._failing is not None and self._failing(info["error"])
        return await self._hypothesis(lane)
