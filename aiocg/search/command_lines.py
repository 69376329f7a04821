"""What searches over whole command lines have in common: who proposes, who evaluates, and in which order.

An evaluation is slow here, and some are a hundred times slower than others, so no worker may wait for another. And yet
the result must not depend on which of them is fast. Both hold because a proposal is made from the results of all
proposals but the `WINDOW` before it, whether or not more are known by then: proposals and their results form one
sequence, the same on any number of workers, in which a slow one holds up others only when it is that far behind.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from aiocg.env import Env
from aiocg.search.budget import Budget
from aiocg.search.lanes import each, open_lanes, spread
from aiocg.search.result import ProgressCallback, Record, SearchResult, SearchState
from aiocg.search.variation import Choices, Variation
from aiocg.spaces.actions.options import OptionActions

__all__ = ["FAILED", "WINDOW", "Proposer", "option_space", "search_command_lines"]

DEFAULT_BUDGET = Budget(evaluations=1000)
WINDOW = 16  # proposals that may be under way; more lanes than that have nothing to do
FAILED = -float("inf")  # what a command line is worth that does not compile
STALE = 2000  # proposals in a row that were all made before: nothing new is to be expected


class Proposer(Protocol):
    """Decides what to try, and learns what it was worth: all that distinguishes one such search from another."""

    def ask(self) -> Choices:
        """Return the next choices to try; it may be called `WINDOW` times before the first `tell`."""

    def tell(self, choices: Choices, reward: float) -> None:
        """Take note of what choices are worth, in the order in which they were asked for; `FAILED` if nothing."""


@dataclass(slots=True)
class _Outcome:
    """What becomes of a command line.

    Attributes:
        number: its place among all that were proposed.
        text: the command line.
        reward: None as long as it is not known.
    """

    number: int
    text: str
    reward: float | None = None


def option_space(env: Env) -> OptionActions:
    """Return the action space of an environment in which an action is a whole command line.

    That is its present one or, where this is another, the compiler's first.

    Raises:
        ValueError: when the compiler has none.
    """
    for space in (env.action_space, *(env.action_spaces[name] for name in env.action_spaces)):
        if isinstance(space, OptionActions):
            return space
    raise ValueError(
        f"{env.spec.id} has no options to choose, as gcc-v0 has: it is searched by `greedy`, `beam` or `random`"
    )


async def search_command_lines(
    algorithm: str,
    env: Env,
    proposer: Callable[[Variation, int], Proposer],
    *,
    budget: Budget | None,
    seed: int,
    progress: ProgressCallback | None,
    resume: SearchState | None,
    lanes: int | None,
) -> SearchResult:
    """Try what a proposer proposes until the budget is used up, and return the best.

    Each command line is evaluated, and counted, once, however often it is proposed. The environment is left at its
    start.

    Args:
        algorithm: name of the search.
        env: with a reward space, of a compiler with options.
        proposer: makes the proposer from what there is to choose and the seed.
        budget, seed, progress, resume, lanes: as for every search.

    Raises:
        ValueError: when there is no reward space or nothing to choose, or `resume` is of another search.
        ServiceError: when the workers cannot do their part.
    """
    space = option_space(env)
    record = Record(algorithm, env, (budget or DEFAULT_BUDGET).start(), progress, resume, action_space=space.name)
    made = proposer(Variation(space.options), seed)
    search = _Search(record, space, made, resume.outcomes if resume is not None else ())
    async with open_lanes(env, lanes) as crew:
        await spread(each(crew, search.work))
    return record.result(complete=search.exhausted, outcomes=search.outcomes())


class _Search:
    """Deals proposals out to the lanes, and results to the proposer, in order."""

    def __init__(
        self, record: Record, space: OptionActions, proposer: Proposer, before: Sequence[float | None]
    ) -> None:
        self._record = record
        self._space = space
        self._proposer = proposer
        self._before = before  # what an earlier search has found out, by number
        self._known: dict[str, _Outcome] = {}
        self._untold: deque[tuple[Choices, _Outcome]] = deque()
        self._best = -1  # number of the best; of equal ones the first counts
        self._stale = 0
        self._news = anyio.Event()

    @property
    def exhausted(self) -> bool:
        """Has the proposer had no new idea for long?"""
        return self._stale >= STALE

    async def work(self, lane: Env) -> None:
        """Evaluate proposals on a lane as long as there is budget."""
        while (outcome := await self._next()) is not None:
            (candidate,) = await lane.expand_texts([(outcome.text,)], observation_spaces=[])
            self._settle(outcome, FAILED if candidate.error is not None else float(candidate.reward))
            self._record.report()

    async def _next(self) -> _Outcome | None:
        """Return a command line that nobody has evaluated, and count it; None when the search is over."""
        meter = self._record.meter
        while not self.exhausted and meter.allows(1):
            if len(self._untold) < WINDOW:
                outcome = self._propose()
                if outcome is not None and outcome.number >= len(self._before):
                    meter.evaluations += 1
                    return outcome
                if outcome is not None:
                    paid = self._before[outcome.number]
                    self._settle(outcome, FAILED if paid is None else paid)
                    await checkpoint()
                continue
            choices, oldest = self._untold[0]
            if oldest.reward is None:
                await self._news.wait()
            else:
                self._untold.popleft()
                self._proposer.tell(choices, oldest.reward)
        return None

    def _propose(self) -> _Outcome | None:
        """Ask for a proposal; return what is to become of it, None if there has been such a one."""
        choices = self._proposer.ask()
        text = self._space.line.write(choices)
        known = self._known.get(text)
        outcome = known or self._known.setdefault(text, _Outcome(len(self._known), text))
        self._untold.append((choices, outcome))
        self._stale = 0 if known is None else self._stale + 1
        return outcome if known is None else None

    def _settle(self, outcome: _Outcome, reward: float) -> None:
        """Take note of what a command line is worth."""
        outcome.reward = reward
        record = self._record
        record.round += outcome.number >= len(self._before)
        if reward > record.reward or (reward == record.reward and outcome.number < self._best):
            record.actions, record.reward, self._best = (outcome.text,), reward, outcome.number
        self._news.set()
        self._news = anyio.Event()

    def outcomes(self) -> tuple[float | None, ...]:
        """Return what all command lines are worth, in the order of their numbers."""
        found = [outcome.reward for outcome in self._known.values()]
        found = [*found, *self._before[len(found) :]]  # the time may have ended before all were proposed again
        return tuple([None if reward == FAILED else reward for reward in found])
