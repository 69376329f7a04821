"""Shrinking a list of actions that breaks something, or a line of options that was found, to the few that matter."""

import functools
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aiocg.env import Env
from aiocg.errors import AiocgError
from aiocg.reduction import Strategy, bisect_prefix, delta_debug
from aiocg.search.command_lines import option_space
from aiocg.search.lanes import open_lanes, spread
from aiocg.search.result import reward_space_of

__all__ = ["Hypothesis", "MinimizationError", "Minimized", "minimize", "minimize_line", "validation_fails"]

Hypothesis = Callable[[Env], Awaitable[bool]]
"""Tells whether what is looked for is true of an environment at its present state."""

_Test = Callable[[Env, tuple[str, ...]], Awaitable[bool]]


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
    whole = tuple(env.action_texts if actions is None else actions)
    async with open_lanes(env, lanes) as crew:
        trial = _Trial(crew, functools.partial(_holds, hypothesis, failing), flakiness)
        smallest = await _shrink(whole, strategies, trial, progress)
    return Minimized(smallest, trial.evaluations, time.monotonic() - started)


async def minimize_line(
    env: Env,
    line: str | None = None,
    hypothesis: Hypothesis | None = None,
    *,
    strategies: Iterable[Strategy[str]] = (delta_debug,),
    lanes: int | None = None,
    progress: Callable[[tuple[str, ...]], None] | None = None,
) -> Minimized:
    """Drop the options of a command line without which it is worth as much, or without which a hypothesis still holds.

    What searches find has many options that do nothing. With the default strategy the result is 1-minimal: without any
    one of its options it is worth less. The environment is left at some line that was tried: reset it.

    Args:
        env: of a compiler with options, such as `gcc-v0`, on the program in question.
        line: the command line, such as `SearchResult.actions[0]`; that of the last action, if None.
        hypothesis: as for `minimize`; if None, that the reward is not less than that of the whole line, which needs a
            reward that is always the same.
        strategies: applied one after the other; see `aiocg.reduction`.
        lanes: environments that share the work, one per worker if None.
        progress: called with the options of each smaller line.

    Returns:
        The smallest line found, as the one action in `actions`.

    Raises:
        MinimizationError: when the hypothesis does not hold with the whole line, or that does not compile.
        ValueError: when the compiler has no options, the environment no reward space and there is no hypothesis, or no
            line is given and the environment is at none.
        InvalidAction: for a word that is no option.
        AiocgError: what resetting, or the hypothesis, raises.
    """
    started = time.monotonic()
    language = option_space(env).line
    if line is None:
        line = next((text for text in env.action_texts[-1:] if language.begins(text)), None)
        if line is None:
            raise ValueError("the last action is no command line: say which is to be minimized")
    program, *options = language.canonical(line).split(" ")

    def actions(words: tuple[str, ...]) -> tuple[str, ...]:
        return (" ".join((program, *words)),)

    async with open_lanes(env, lanes) as crew:
        if hypothesis is not None:
            test = functools.partial(_holds, hypothesis, None)
        else:
            test = functools.partial(_earns, await _reward(env, actions(tuple(options))))
        trial = _Trial(crew, lambda lane, words: test(lane, actions(words)), 1)
        smallest = await _shrink(tuple(options), strategies, trial, progress)
    return Minimized(actions(smallest), trial.evaluations, time.monotonic() - started)


async def _shrink(
    items: tuple[str, ...],
    strategies: Iterable[Strategy[str]],
    trial: "_Trial",
    progress: Callable[[tuple[str, ...]], None] | None,
) -> tuple[str, ...]:
    """Apply strategies one after the other."""
    if await trial.first([items]) is None:
        raise MinimizationError(items, trial.flakiness)
    for strategy in strategies:
        items = await _follow(strategy, items, trial, progress)
    return items


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

    def __init__(self, lanes: Sequence[Env], test: _Test, flakiness: int) -> None:
        self._lanes = lanes
        self._test = test
        self.flakiness = flakiness
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
        for _ in range(self.flakiness):
            if await self._test(lane, actions):
                self._verdicts[actions] = True
                return
        self._verdicts[actions] = False


async def _holds(
    hypothesis: Hypothesis, failing: Callable[[Exception], bool] | None, lane: Env, actions: tuple[str, ...]
) -> bool:
    """Does a hypothesis hold after these actions?"""
    await lane.reset()
    if actions:
        _, _, terminated, _, info = await lane.step_texts(actions, observation_spaces=[], reward_spaces=[])
        if terminated:
            return failing is not None and failing(info["error"])
    return await hypothesis(lane)


async def _earns(reward: float, lane: Env, actions: tuple[str, ...]) -> bool:
    """Do these actions earn so much?"""
    return await _reward(lane, actions) >= reward


async def _reward(lane: Env, actions: tuple[str, ...]) -> float:
    """Return what actions earn from the start, which a lane is at; not a number if they fail."""
    reward_space_of(lane)
    (candidate,) = await lane.expand_texts([actions], observation_spaces=[])
    return math.nan if candidate.error is not None else float(candidate.reward)
