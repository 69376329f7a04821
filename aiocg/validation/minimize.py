"""Shrinking a list of actions, or a command line, to the few elements that matter."""

import contextlib
import functools
import itertools
import math
import random
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import anyio

from aiocg.env.env import Env
from aiocg.errors import AiocgError
from aiocg.search.command_lines import option_space
from aiocg.search.lanes import bare_sibling, open_lanes, spread
from aiocg.search.result import reward_space_of

__all__ = ["Hypothesis", "MinimizationError", "minimize", "minimize_line", "reproducer_of", "validation_fails"]

T = TypeVar("T")
Search = Generator[Sequence[tuple[T, ...]], int | None, tuple[T, ...]]
Strategy = Callable[[tuple[T, ...]], Search[T]]


def delta_debug(items: tuple[T, ...]) -> Search[T]:
    """Remove ever smaller parts until no single item can be removed (1-minimal).

    This is ddmin (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002) without its test of
    the parts themselves: with two parts these are the complements, and with more they seldom hold.
    """
    parts = 2
    while items:
        parts = min(parts, len(items))
        bounds = [len(items) * part // parts for part in range(parts + 1)]
        complements = [items[:start] + items[end:] for start, end in itertools.pairwise(bounds)]
        found = yield complements
        if found is not None:
            items = complements[found]
            parts = max(parts - 1, 2)
        elif parts == len(items):
            break
        else:
            parts *= 2
    return items


def bisect_prefix(items: tuple[T, ...]) -> Search[T]:
    """Find the shortest prefix that holds, assuming that longer ones hold too.

    Takes at most log2(n) + 1 questions. If the assumption is wrong, the result holds but may not be the shortest.
    """
    shortest = yield from _bisect(items, lambda length: items[:length])
    return items[:shortest]


def bisect_suffix(items: tuple[T, ...]) -> Search[T]:
    """Find the shortest suffix that holds; as `bisect_prefix`, from the other end."""
    shortest = yield from _bisect(items, lambda length: items[len(items) - length :])
    return items[len(items) - shortest :]


def _bisect(
    items: tuple[T, ...], part: Callable[[int], tuple[T, ...]]
) -> Generator[Sequence[tuple[T, ...]], int | None, int]:
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if (yield [part(middle)]) is not None:
            high = middle
        else:
            low = middle + 1
    return high


def one_by_one(items: tuple[T, ...]) -> Search[T]:
    """Try to remove each item, last first, until none can be removed: 1-minimal, with about n squared / 2 questions."""
    reduced = True
    while reduced:
        reduced = False
        for index in reversed(range(len(items))):
            without = items[:index] + items[index + 1 :]
            if (yield [without]) is not None:
                items, reduced = without, True
    return items


def random_removal(
    seed: int = 0, *, rounds: float = 5.0, discard: float = 0.75, decay: float = 0.75, shortest: int = 5
) -> Strategy[T]:
    """Return a strategy that removes items at random: a quick first pass over very long lists.

    Args:
        seed: of its choices.
        rounds: maximum number of questions, in units of log2 of the list's length.
        discard: initial share of items to remove, also after each success.
        decay: factor of that share after each failure; it ends when removing a single item has failed.
        shortest: lists shorter than this are left alone.
    """

    def strategy(items: tuple[T, ...]) -> Search[T]:
        rng = random.Random(seed)
        share = discard
        for _ in range(int(math.log2(max(len(items), 1)) * rounds)):
            if len(items) < shortest:
                break
            count = min(math.ceil(len(items) * share), len(items))
            removed = set(rng.sample(range(len(items)), count))
            candidate = tuple(item for index, item in enumerate(items) if index not in removed)
            if (yield [candidate]) is not None:
                items, share = candidate, discard
            elif count == 1:
                break
            else:
                share *= decay
        return items

    return strategy


Hypothesis = Callable[[Env], Awaitable[bool]]
"""Tells whether what is looked for is true of an environment at its present state."""

_Test = Callable[[Env, tuple[str, ...]], Awaitable[bool]]

_TOLERANCE = 1e-9  # of rewards, which are sums


class MinimizationError(AiocgError):
    """The hypothesis does not hold for the whole list.

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
class _Minimized:
    """A minimised list of actions.

    Attributes:
        actions: texts of the smallest list of actions found after which the hypothesis holds.
        evaluations: how many lists were tried.
        walltime: seconds.
    """

    actions: tuple[str, ...]
    evaluations: int
    walltime: float


async def validation_fails(env: Env, **options: Any) -> bool:
    """Return whether validation of the program fails.

    Args:
        env: an environment at the state in question.
        options: of `aiocg.validation`; without any, sanitizers do not watch, and a test is done once.
    """
    result = await env.validate(**{"sanitizers": (), "flakiness": 1, "minimize": False, **options})
    return result.benchmark_semantics_validation_failed


async def minimize(
    env: Env,
    hypothesis: Hypothesis | None = validation_fails,
    actions: Iterable[str] | None = None,
    *,
    strategies: Iterable[Strategy[str]] = (bisect_prefix, delta_debug),
    flakiness: int = 1,
    failing: Callable[[Exception], bool] | None = None,
    lanes: int | None = None,
    progress: Callable[[tuple[str, ...]], None] | None = None,
) -> _Minimized:
    """Find a small list of actions for which a hypothesis still holds.

    With the default strategies the result is 1-minimal: without any one of its actions the hypothesis does not hold. It
    does not depend on the number of workers. Reset the environment afterwards: it is left at some list that was tried.

    Args:
        env: on the program in question.
        hypothesis: an async function of an environment that was reset and has applied a list of actions. Several are
            under way at once, on environments of their own. If None, that the reward is not less than that of the
            whole list, which needs a reward that is always the same.
        actions: texts of the actions to shrink; what the environment has done since its reset, if None.
        strategies: applied one after the other; see `aiocg.validation.minimize`.
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
    whole = tuple(env.action_texts if actions is None else actions)
    return await _minimized(env, whole, tuple, hypothesis, failing, strategies, flakiness, lanes, progress)


async def minimize_line(
    env: Env,
    line: str | None = None,
    hypothesis: Hypothesis | None = None,
    *,
    strategies: Iterable[Strategy[str]] = (delta_debug,),
    lanes: int | None = None,
    progress: Callable[[tuple[str, ...]], None] | None = None,
) -> _Minimized:
    """Drop the options of a command line that do not contribute to its reward, or to a hypothesis.

    Search results have many options without effect. With the default strategy the result is 1-minimal: without any one
    of its options the reward is lower. Reset the environment afterwards: it is left at some line that was tried.

    Args:
        env: of a compiler with options, such as `gcc-v0`, on the program in question.
        line: the command line, such as `SearchResult.actions[0]`; that of the last action, if None.
        hypothesis: as for `minimize`; if None, that the reward is not less than that of the whole line, which needs a
            reward that is always the same.
        strategies: applied one after the other; see `aiocg.validation.minimize`.
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
    language = option_space(env).line
    if line is None:
        line = next((text for text in env.action_texts[-1:] if language.begins(text)), None)
        if line is None:
            raise ValueError("the last action is no command line: say which is to be minimized")
    program, *options = language.canonical(line).split(" ")

    def actions(words: tuple[str, ...]) -> tuple[str, ...]:
        return (" ".join((program, *words)),)

    words = tuple(options)
    return await _minimized(env, words, actions, hypothesis, None, strategies, 1, lanes, progress)


async def reproducer_of(env: Env, actions: tuple[str, ...], seconds: float, **options: Any) -> tuple[str, ...]:
    """Return the actions, or the options of a command line, that miscompile a program, without the needless ones.

    Args:
        env: on the program; only siblings of it are used.
        actions: texts of the actions after which validation fails.
        seconds: after which the smallest list found so far is returned.
        options: of `aiocg.validation`, as for `validation_fails`.

    Returns:
        A list of which no action can be left out, if the time sufficed; the whole list if its failure was chance.
    """
    line = env.action_spaces.language.line
    is_line = line is not None and len(actions) == 1 and line.begins(actions[0])
    if len(actions) < 2 and not is_line:
        return actions
    smallest = actions

    def keep(items: tuple[str, ...]) -> None:
        nonlocal smallest
        smallest = (" ".join((actions[0].partition(" ")[0], *items)),) if is_line else items

    hypothesis = functools.partial(validation_fails, **options)
    async with await bare_sibling(env) as own:
        with anyio.move_on_after(seconds), contextlib.suppress(MinimizationError):
            if is_line:
                await minimize_line(own, actions[0], hypothesis, progress=keep)
            else:
                await minimize(own, hypothesis, actions, progress=keep)
    return smallest


async def _minimized(
    env: Env,
    items: tuple[str, ...],
    actions: Callable[[tuple[str, ...]], tuple[str, ...]],
    hypothesis: Hypothesis | None,
    failing: Callable[[Exception], bool] | None,
    strategies: Iterable[Strategy[str]],
    flakiness: int,
    lanes: int | None,
    progress: Callable[[tuple[str, ...]], None] | None,
) -> _Minimized:
    """Apply strategies to items one after the other; `actions` returns the list of actions that items stand for."""
    started = time.monotonic()
    async with open_lanes(env, lanes) as crew:
        if hypothesis is not None:
            test: _Test = functools.partial(_holds, hypothesis, failing)
        else:
            test = functools.partial(_earns, await _reward(env, actions(items)))
        trial = _Trial(crew, lambda lane, chosen: test(lane, actions(chosen)), flakiness)
        if await trial.first([items]) is None:
            raise MinimizationError(items, flakiness)
        for strategy in strategies:
            items = await _follow(strategy, items, trial, progress)
    return _Minimized(actions(items), trial.evaluations, time.monotonic() - started)


async def _follow(
    strategy: Strategy[str], items: tuple[str, ...], trial: "_Trial", progress: Callable[[tuple[str, ...]], None] | None
) -> tuple[str, ...]:
    """Answer what a strategy asks, and return what it comes to."""
    search, found = strategy(items), None
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
        self._flakiness = flakiness
        self._verdicts: dict[tuple[str, ...], bool] = {}
        self.evaluations = 0

    async def first(self, candidates: Sequence[tuple[str, ...]]) -> int | None:
        """Return the index of the first list that holds; as many are tried at once as there are lanes."""
        width = len(self._lanes)
        for start in range(0, len(candidates), width):
            batch = candidates[start : start + width]
            unknown = dict.fromkeys(actions for actions in batch if actions not in self._verdicts)
            pairs = zip(self._lanes, unknown, strict=False)
            await spread([functools.partial(self._try, lane, actions) for lane, actions in pairs])
            for index, actions in enumerate(batch, start):
                if self._verdicts[actions]:
                    return index
        return None

    async def _try(self, lane: Env, actions: tuple[str, ...]) -> None:
        self.evaluations += 1
        for _ in range(self._flakiness):
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
        _, _, _, _, info = await lane.step_texts(actions, observation_spaces=[], reward_spaces=[])
        if "error" in info:
            return failing is not None and failing(info["error"])
    return await hypothesis(lane)


async def _earns(reward: float, lane: Env, actions: tuple[str, ...]) -> bool:
    """Do these actions earn so much?"""
    return await _reward(lane, actions) >= reward - _TOLERANCE


async def _reward(lane: Env, actions: tuple[str, ...]) -> float:
    """Return what actions earn from the start, which a lane is at; not a number if they fail."""
    reward_space_of(lane)
    (candidate,) = await lane.expand_texts([actions], observation_spaces=[])
    return math.nan if candidate.error is not None else float(candidate.reward)
