"""A search whose candidates grow the tree of a session while one watches."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiocg import search
from aiocg.errors import AiocgError
from aiocg.search.budget import Budget
from aiocg.search.result import SearchResult, SearchState
from aiocg.search.timing import LEVELS
from aiocg.search.tuner import Outcome
from aiocg.spaces.rewards import CostReward
from aiocg.web._session import TIME, ExplorerSession
from aiocg.web.limits import Refusal
from aiocg.web.tree import TreeError

SEED = 0
PASSES = ("greedy", "beam", "random", "evolve", "mcts", "portfolio", "policy", "functionwise", "decide")
OPTIONS = ("screening", "hill_climb", "genetic", "random")  # of whole command lines
LIBRARIES = ("nevergrad", "opentuner")  # each needs its library
SCHEDULES = ("schedule",)
WITHOUT_SEED = ("greedy", "beam")
SIZES = ("IrInstructionCount", "ObjectImageSizeMinsizeBytes")  # whose functions `OF_FUNCTIONS` know
OF_FUNCTIONS = ("functionwise", "decide")
SPEED = "flops"


@dataclass(frozen=True, slots=True)
class _Watchable:
    """A search, as a session has it.

    Attributes:
        search: it.
        reward: the reward space that it maximises.
        anywhere: whether it can begin at any state.
        measured: whether costs are measured; outcomes have them then.
        timed: whether these are running times, and not the costs that the session's nodes have.
    """

    search: Callable[..., Awaitable[SearchResult]]
    reward: str
    anywhere: bool = True
    measured: bool = False
    timed: bool = False

    async def run(self, env: Any, **options: Any) -> SearchResult:
        """Run it."""
        seed = {} if self.search.__name__ in WITHOUT_SEED else {"seed": SEED}
        return await self.search(env, **seed, **options)


def watchable(session: ExplorerSession) -> dict[str, _Watchable]:
    """Return the searches that a session can run, the simplest first; none where there is nothing to be searched."""
    env, cost = session.env, session.costs[0]
    lines = env.action_spaces.language.line is not None
    if "templates" in env.observation_spaces and SPEED in env.reward_spaces:
        return {name: _Watchable(getattr(search, name), SPEED, anywhere=False, measured=True) for name in SCHEDULES}
    if not isinstance(env.reward_spaces.get(cost), CostReward) or not env.action_space.names:
        return {}
    of_llvm = not lines and env.spec.worker == "llvm"
    impossible = {*(() if cost in SIZES else OF_FUNCTIONS), *(() if of_llvm else ("policy",))}
    known = {
        name: _Watchable(getattr(search, name), cost, anywhere=not lines and name not in OF_FUNCTIONS)
        for name in (*(OPTIONS if lines else PASSES), *LIBRARIES)
        if name not in impossible
    }
    if of_llvm and env.benchmark.program is not None and env.benchmark.program.runs:
        known["racing"] = _Watchable(search.racing, TIME, anywhere=False, measured=True, timed=True)
    return known


FRAME = 0.1  # seconds between two events
KEPT = 20  # searches of a session that are known


@dataclass(slots=True)
class Run:
    """A search that is, or was, watched.

    Attributes:
        number: from 1, of the session's searches.
        name: of the search.
        origin: the node where it begins.
        cost: what it lowers: the main cost of the session's nodes, or the running time in seconds.
        running: whether it goes on.
        complete: whether it has tried all that it would, so that it cannot go on.
        evaluations: candidates that were evaluated.
        best: the lowest cost that was found, None as long as nothing was measured.
        actions: which lead there from the program as it came.
        node: where that is in the tree, None before the end.
        error: why it has ended before its time, if it has.
        verdict: how what was found behaves, once that is known.
        course: after how many evaluations each new best was found, and its cost.
        lines: what the compiler's own levels cost.
    """

    number: int
    name: str
    origin: int
    cost: str
    best: float | None = None
    running: bool = True
    complete: bool = False
    evaluations: int = 0
    actions: tuple[str, ...] = ()
    node: int | None = None
    error: str = ""
    verdict: str = ""
    course: list[tuple[int, float]] = field(default_factory=list)
    lines: dict[str, float] = field(default_factory=dict)

    @property
    def points(self) -> list[tuple[int, float]]:
        """The course until now."""
        return self.course if self.best is None else [*self.course, (self.evaluations, self.best)]


class LiveSearch:
    """The searches of a session, of which one runs at a time.

    Candidates become nodes where they are one action further than a node; the search does not wait for anybody who
    watches. When it has ended, or was paused, the session goes to the best state that it found. One goes on from there
    by hand, lets the same search go on, or starts another one from where one is. What it has found is what it has tried
    itself, not the compiler's own levels.

    Args:
        session: whose they are.
        check: raises Refusal when no search may be started, because of those of other sessions.

    Attributes:
        runs: the searches, the last one at the end.
    """

    def __init__(self, session: ExplorerSession, check: Callable[[], object] = lambda: None) -> None:
        self.runs: list[Run] = []
        self._session = session
        self._check_others = check
        self._task: asyncio.Task[None] | None = None
        self._pausing = False
        self._state: SearchState | None = None  # of the last run, to go on from
        self._nodes: dict[tuple[str, ...], int] = {}  # by the actions that lead there
        self._search: _Watchable | None = None  # the last
        self._ways: list[tuple[str, ...]] = []  # of which there are no nodes yet
        self._told = 0.0  # when the last event was

    @property
    def running(self) -> bool:
        """Whether a search runs."""
        return self._task is not None and not self._task.done()

    @property
    def resumable(self) -> bool:
        """Whether the last search could go on."""
        return not self.running and self._state is not None and not self.runs[-1].complete

    @property
    def last(self) -> Run | None:
        """The search that runs, or else the last one."""
        return self.runs[-1] if self.runs else None

    def start(self, name: str, seconds: float, *, here: bool = False) -> None:
        """Start a search.

        Args:
            name: one of those that are `watchable`.
            seconds: after which it ends.
            here: begin at the present node, not at the program as it came.

        Raises:
            Refusal: when there is no such search, another one runs, this takes too long, or nothing can be searched.
        """
        session = self._session
        self._check(seconds)
        known = watchable(session)
        if not known:
            raise Refusal(409, f"{session.env.spec.id} has no actions or no cost that can be searched here")
        if name not in known:
            raise Refusal(422, f"there is no search {name!r} that can be watched: take {', '.join(known)}")
        if here and not known[name].anywhere:
            raise Refusal(422, f"{name} begins at the program as it came: leave out `here`, or take another search")
        origin = session.tree.present if here else session.tree[0]
        number = self.runs[-1].number + 1 if self.runs else 1
        path, line = session.tree.path(origin.number), session.tree.line(origin.number)
        cost = session.costs[0]
        if known[name].timed:
            run = Run(number, name, origin.number, TIME, actions=path)
        else:
            best = origin.costs[cost]
            run = Run(
                number, name, origin.number, cost, best, actions=path, course=[(0, best)], lines=dict(session.lines)
            )
        self.runs = [*self.runs[1 - KEPT :], run]
        self._nodes = {session.tree.path(node.number): node.number for node in line}
        self._search = known[name]
        self._begin(run, seconds, None)

    def resume(self, seconds: float) -> None:
        """Let the last search go on where it was.

        Args:
            seconds: for how long.

        Raises:
            Refusal: when there is none that could.
        """
        self._check(seconds)
        if not self.resumable:
            raise Refusal(409, "there is no search that could go on: start one")
        self._begin(self.runs[-1], seconds, self._state)

    def _check(self, seconds: float) -> None:
        most = self._session.limits.search_seconds
        if not 0 < seconds <= most:
            raise Refusal(422, f"a search takes more than 0 and up to {most:g} seconds, not {seconds:g}")
        if self.running:
            raise Refusal(409, "a search of this session is running: pause it first")
        self._check_others()

    def _begin(self, run: Run, seconds: float, before: SearchState | None) -> None:
        self._pausing, self._state, self._ways = False, None, []
        run.running, run.error = True, ""
        self._task = asyncio.create_task(self._run(run, seconds, before))

    async def pause(self) -> None:
        """End the search when what is being evaluated is known, and wait until the session is at the best state."""
        self._pausing = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Abandon the search."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self, run: Run, seconds: float, before: SearchState | None) -> None:
        session, chosen = self._session, self._search
        assert chosen is not None
        options: dict[str, Any] = {} if before is None else {"resume": before}
        if run.origin:
            options["start"] = session.tree.path(run.origin)
        growing = None if chosen.measured else asyncio.create_task(self._grow())  # which would disturb measurements
        try:
            async with await session.env.sibling() as env:
                env.observation_space, env.reward_space = None, chosen.reward
                found = await chosen.run(env, budget=Budget(seconds=seconds), watch=self._learned, **options)
            run.complete = found.complete and not self._pausing
            run.verdict = found.checks.behaviour.sentence(found.checks.reason)
            self._state = found.state
            await session.goto(0)
            sure = chosen.measured or found.checks.wrong  # the lowest of many times is lucky; and not all is believed
            actions, most = found.actions if sure else run.actions, session.limits.actions
            for place in range(0, len(actions), most):
                await session.step(actions[place : place + most])
            run.node = session.tree.present.number
            if found.timing is not None:
                run.best = found.timing.medians[found.timing.chosen]
            elif sure:
                run.best = session.tree.present.costs[run.cost]
            if growing is None:
                await self._add_ways()
        except Exception as problem:
            run.error = f"{type(problem).__name__}: {problem}"
            if growing is None:
                await self._add_ways()
        finally:
            if growing is not None:
                growing.cancel()
            run.running = False
            self._tell(run)

    def _learned(self, outcome: Outcome) -> bool:
        """Take note of a candidate; return whether to go on."""
        run, path, session = self.runs[-1], outcome.actions, self._session
        assert self._search is not None
        run.evaluations += 1
        if not outcome.failed:
            now = outcome.costs[0] if self._search.measured else session.tree[0].costs[run.cost] - outcome.reward
            if better := run.best is None or now < run.best:
                run.best, run.actions = now, path
                run.course.append((run.evaluations, now))
            if self._search.timed:
                run.lines |= {f"-{name}": now for name, level in LEVELS.items() if level == path}
                self._ways.append(path)
            elif not self._add(path, outcome.state, now) and better:
                self._ways = [path]
        if time.monotonic() - self._told >= FRAME:
            self._tell(run)
        return not self._pausing

    def _add(self, path: tuple[str, ...], state: int, cost: float) -> bool:
        """Make a candidate a node, if it is one action further than a node; return whether there is a node of it."""
        if path and path not in self._nodes and path[:-1] in self._nodes:
            with contextlib.suppress(TreeError):  # a full tree grows no more, and the search goes on
                node = self._session.tree.add(self._nodes[path[:-1]], path[-1], state, {self._session.costs[0]: cost})
                self._nodes[path] = node.number
        return path in self._nodes

    async def _grow(self) -> None:
        """Make nodes of the way to each new best, where the search has not tried what lies on it."""
        while True:
            await asyncio.sleep(FRAME)
            await self._add_ways()

    async def _add_ways(self) -> None:
        ways, self._ways = self._ways, []
        if ways and len(self._session.tree) < self._session.limits.nodes:
            with contextlib.suppress(AiocgError, TreeError, Refusal):
                paths = [way[:count] for way in ways for count in range(1, len(way) + 1)]
                self._nodes |= await self._session.grow(list(dict.fromkeys(paths)))

    def _tell(self, run: Run) -> None:
        self._told = time.monotonic()
        facts = {name: getattr(run, name) for name in ("number", "name", "running", "evaluations", "best")}
        self._session.tell("search", **facts, nodes=len(self._session.tree), error=run.error or None)
