"""A search whose candidates grow the tree of a session while one watches."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiocg.datasets.errors import DatasetError
from aiocg.errors import AiocgError
from aiocg.search.alphabet import Alphabet
from aiocg.search.anneal import PACE as ANNEALING
from aiocg.search.anneal import Annealer
from aiocg.search.beam import PACE as LEVELS
from aiocg.search.beam import Beam
from aiocg.search.budget import Budget
from aiocg.search.driver import Pace, tune
from aiocg.search.evolve import Evolver
from aiocg.search.greedy import Greedy
from aiocg.search.random import PACE as WALKING
from aiocg.search.random import RandomWalks
from aiocg.search.result import Progress
from aiocg.search.tuner import Outcome, Proposal, Tuner
from aiocg.spaces.rewards import CostReward
from aiocg.web.limits import Refusal
from aiocg.web.session import ExplorerSession
from aiocg.web.tree import TreeError

__all__ = ["SEARCHES", "LiveSearch", "Status"]

SEARCHES: dict[str, tuple[Callable[[Alphabet], Tuner], Pace]] = {
    "greedy": (Greedy, LEVELS),
    "beam": (lambda alphabet: Beam(alphabet, 4, 20), LEVELS),
    "random": (lambda alphabet: RandomWalks(alphabet, SEED, None), WALKING),
    "evolve": (lambda alphabet: Evolver(alphabet, SEED), Pace()),
    "anneal": (lambda alphabet: Annealer(alphabet, SEED), ANNEALING),
}
"""The searches that can be watched: those over lists of actions."""

FRAME = 0.1  # seconds between two events
SEED = 0


@dataclass(frozen=True, slots=True)
class Status:
    """Where a search stands.

    Attributes:
        name: of the search.
        running: whether it goes on.
        evaluations: candidates that were evaluated.
        best: the lowest cost that was found.
        actions: which lead there from the program as it came.
        error: why it has ended before its time, if it has.
    """

    name: str
    running: bool = True
    evaluations: int = 0
    best: float = 0.0
    actions: tuple[str, ...] = ()
    error: str = ""


class LiveSearch:
    """The search of a session, of which one runs at a time.

    Its candidates become nodes where they are one action further than a node; the search does not wait for anybody who
    watches. It begins at the program as it came. When it has ended, or was stopped, the session goes to the best state
    that it found, and one goes on from there by hand.

    Attributes:
        status: of the present search or else the last one; None before the first.
    """

    def __init__(self, session: ExplorerSession) -> None:
        self.status: Status | None = None
        self._session = session
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self._nodes: dict[tuple[str, ...], int] = {}  # by the actions that lead there
        self._evaluations = 0
        self._told = 0.0  # when the last event was

    @property
    def running(self) -> bool:
        """Whether a search runs."""
        return self._task is not None and not self._task.done()

    def start(self, name: str, seconds: float) -> None:
        """Start a search.

        Args:
            name: one of `SEARCHES`.
            seconds: after which it ends.

        Raises:
            Refusal: when there is no such search, another one runs, this takes too long, or nothing can be searched.
        """
        session, most = self._session, self._session.limits.search_seconds
        if name not in SEARCHES:
            raise Refusal(422, f"there is no search {name!r} that can be watched: take {', '.join(SEARCHES)}")
        if not 0 < seconds <= most:
            raise Refusal(422, f"a search takes more than 0 and up to {most:g} seconds, not {seconds:g}")
        if self.running:
            raise Refusal(409, "a search of this session is running: stop it first")
        reward = session.env.reward_spaces.get(session.costs[0])
        if not isinstance(reward, CostReward) or not session.env.action_space.names:
            raise Refusal(409, f"{session.env.spec.id} has no actions or no cost that can be searched here")
        self._stopping, self._evaluations, self._nodes = False, 0, {(): 0}
        self.status = Status(name, best=session.tree[0].costs[session.costs[0]])
        self._task = asyncio.create_task(self._run(name, seconds))

    async def stop(self) -> None:
        """End the search when what is being evaluated is known, and wait until the session is at the best state."""
        self._stopping = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Abandon the search."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self, name: str, seconds: float) -> None:
        session, (make, pace) = self._session, SEARCHES[name]
        error = ""
        try:
            async with await session.env.sibling() as env:
                env.observation_space, env.reward_space = None, session.costs[0]  # the plain decrease of the cost
                found = await tune(
                    env,
                    lambda alphabet: _Watched(make(alphabet), self),
                    name=name,
                    pace=pace,
                    budget=Budget(seconds=seconds),
                    progress=self._progressed,
                )
            self._note(actions=found.actions, reward=found.reward)
            if found.actions:
                await session.goto(0)
                await session.step(found.actions[: session.limits.actions])
        except (AiocgError, DatasetError, TreeError, Refusal, ValueError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        finally:
            self._note(running=False, error=error)
            self._tell()

    @property
    def stopping(self) -> bool:
        """Whether nothing more is to be proposed."""
        return self._stopping

    def learned(self, outcome: Outcome) -> None:
        """Take note of a candidate."""
        self._evaluations += 1
        path, session = outcome.actions, self._session
        if not outcome.failed and path and path not in self._nodes and path[:-1] in self._nodes:
            cost = session.costs[0]
            now = session.tree[0].costs[cost] - outcome.reward
            with contextlib.suppress(TreeError):  # a full tree grows no more, and the search goes on
                node = session.tree.add(self._nodes[path[:-1]], path[-1], outcome.state, {cost: now})
                self._nodes[path] = node.number
        if time.monotonic() - self._told >= FRAME:
            self._note()
            self._tell()

    def _progressed(self, progress: Progress) -> None:
        self._note(actions=progress.actions, reward=progress.reward)

    def _note(
        self,
        *,
        actions: tuple[str, ...] | None = None,
        reward: float = 0.0,
        running: bool = True,
        error: str = "",
    ) -> None:
        assert self.status is not None
        before = self.status
        best = before.best if actions is None else self._session.tree[0].costs[self._session.costs[0]] - reward
        actions = before.actions if actions is None else actions
        self.status = Status(before.name, running, self._evaluations, best, actions, error)

    def _tell(self) -> None:
        assert self.status is not None
        now = self.status
        self._told = time.monotonic()
        self._session.tell(
            "search",
            name=now.name,
            running=now.running,
            evaluations=now.evaluations,
            best=now.best,
            nodes=len(self._session.tree),
            error=now.error or None,
        )


class _Watched:
    """A tuner that tells what it is told, and has finished when it is to stop."""

    def __init__(self, tuner: Tuner, search: LiveSearch) -> None:
        self._tuner = tuner
        self._search = search

    def ask(self, count: int) -> Sequence[Proposal]:
        """Ask the tuner."""
        return [] if self._search.stopping else self._tuner.ask(count)

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Tell the tuner, and whoever watches."""
        self._tuner.tell(proposal, outcome)
        self._search.learned(outcome)
