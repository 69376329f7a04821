"""A search that optimises each function separately: one evaluation tests new passes for every function."""

import asyncio
import functools
import itertools
import math
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from operator import attrgetter
from typing import Unpack
from weakref import WeakSet

import anyio

from aiocg.env.env import Env
from aiocg.env.step import Candidate
from aiocg.errors import AiocgError
from aiocg.search._checking import Checker
from aiocg.search._decisions import Decisions, Gain, Trial
from aiocg.search._driver import Options, SpaceAlphabet
from aiocg.search._population import MARKS, NAME, PASSES, Passes, Population, text_of
from aiocg.search.baselines import FRAME_POINTERS, baselines
from aiocg.search.budget import Budget, Meter, checked
from aiocg.search.lanes import close_all, each, evaluate, go_to, open_lanes, spread
from aiocg.search.priors import usable_actions
from aiocg.search.result import (
    Progress,
    ProgressCallback,
    Record,
    SearchResult,
    SearchState,
    WatchCallback,
    begin_state,
    reward_space_of,
)
from aiocg.search.tuner import Outcome

Actions = tuple[str, ...]
MARK, CLANG_OZ = "mark<minsize>", "clang<Oz>"
PREFIX, CODEGEN = "codegen<", "codegen<size>"
SETTINGS = (
    "disable-machine-licm=false", "disable-lsr=false", "apply-ext-tsp-for-size=false", "disable-machine-cse=true",
    "pre-RA-sched=list-burr", "disable-x86-lea-opt=true", "enable-shrink-wrap=false", "min-jump-table-entries=100",
    "min-jump-table-entries=8", "min-jump-table-entries=4", "huge-size-for-split=5000", "split-spill-mode=default",
    "tail-merge-size=3",
)  # fmt: skip
"""Options of the code generator that differ from those of `CODEGEN`, and make some programs smaller."""
MOST_CHOICES = 2 * len(SETTINGS) + 1  # evaluations that choosing among them may take

_RAW: Actions = (
    "always-inline", "inferattrs", "ipsccp", "globalopt", "sroa", "early-cse", "simplifycfg", "function-attrs",
    "globaldce", "deadargelim",
)  # fmt: skip
ARGUMENTS: Actions = (*_RAW, "argpromotion", "ipsccp<func-spec>", "globaldce", "deadargelim")


def oz(threshold: int) -> Actions:
    """Return -Oz that inlines calls whose cost, as LLVM's inliner counts it, is below a threshold."""
    return (f"{{inliner-threshold={threshold}}}default<Oz>",)


def inlined(threshold: int) -> Actions:
    """Return cheap passes, and an inliner with a threshold as that of `oz`."""
    return (*ARGUMENTS, f"{{inliner-threshold={threshold}}}scc-oz-module-inliner", "globaldce", "deadargelim")


def marked(actions: Actions, cost: str) -> Actions:
    """Return actions that mark functions, where an observation of a cost assumes that they are marked."""
    return actions if cost == "IrInstructionCount" or MARK in actions else (*actions, MARK)


BASES: tuple[Actions, ...] = (
    ARGUMENTS, oz(0), oz(25), _RAW, (MARK, "clang<Oz>"), oz(5), inlined(0), inlined(25),
    inlined(100),
)  # fmt: skip
"""The most promising first."""

LARGE_BASES: tuple[Actions, ...] = (oz(0), oz(25))
"""Of programs whose code takes so long to generate that there is time for few evaluations."""

MERGING: Actions = ("mergefunc", "globaldce")

CLEANUPS: tuple[Actions, ...] = (
    ("globaldce",), MERGING, ("constmerge", "globaldce"), ("globalopt", "globaldce", "deadargelim"),
    ("ipsccp", "globalopt", "globaldce", "deadargelim"),
    ("function-attrs", "rpo-function-attrs", "early-cse", "globaldce"), ("argpromotion", "globaldce", "deadargelim"),
    ("{inliner-threshold=0}scc-oz-module-inliner", "globaldce"),
    ("{inliner-threshold=25}scc-oz-module-inliner", "globaldce"), ("iroutliner", "globaldce"),
    ("mergefunc", "iroutliner", "mergefunc", "globaldce"), ("partial-inliner", "globaldce"),
    ("hotcoldsplit", "globaldce"), ("called-value-propagation", "globalopt", "globaldce"), ("default<Oz>",),
    ("default<Os>",),
)  # fmt: skip


FILES = {  # by the observation of function costs
    "FunctionInstructionCounts": "core_instructions.txt",
    "FunctionImageSizesMinsize": "core_bytes.txt",
}


@cache
def core(costs: str) -> tuple[Passes, ...]:
    """Return the core set for an observation of function costs."""
    return sequences_in((files(__package__) / FILES[costs]).read_text(encoding="utf-8"))


def sequences_in(text: str) -> tuple[Passes, ...]:
    """Return the sequences of a file of `bench.core_set`."""
    return tuple(tuple(line.split(",")) for line in text.splitlines() if not line.startswith("#"))


async def usable(env: Env, sequences: Sequence[Passes]) -> list[Passes]:
    """Return sequences without the passes that the compiler at hand does not have."""
    passes = list(dict.fromkeys(one for sequence in sequences for one in sequence))
    known = {one for one, is_known in zip(passes, await usable_actions(env, passes), strict=True) if is_known}
    return [tuple(one for one in sequence if one in known) for sequence in sequences]


POLISHED = 1.05  # factor on the cost of what an optimisation level has made, as that improves least afterwards


@dataclass(slots=True)
class Site:
    """A base, opened on every lane.

    Attributes:
        actions: the actions that lead to the base.
        lanes: environments at the base.
        population: its functions and their best passes.
        rest: the program's cost outside of its functions.
    """

    actions: Actions
    lanes: list[Env]
    population: Population
    rest: float
    _turn: int = 0

    @property
    def cost(self) -> float:
        """The cost of the program with the best passes for each function."""
        return self.rest + self.population.cost

    @property
    def promise(self) -> float:
        """The cost by which bases are compared before all have had their time: the lower, the better."""
        polished = any("default<" in action or action == CLANG_OZ for action in self.actions)
        return self.cost * (POLISHED if polished else 1)

    def combined(self) -> Actions:
        """Return the actions that lead to the program with the best passes for each function."""
        best = self.population.best
        removal = ("globaldce",) if self.population.some_dead else ()
        return (*self.actions, *((text_of(best),) if best else ()), *removal)

    def next_lane(self) -> Env:
        """Return the lanes in turn."""
        self._turn += 1
        return self.lanes[self._turn % len(self.lanes)]


Costs = tuple[Mapping[str, float], int]
"""The cost of each function after a proposal, and the hash of the program, 0 if some passes failed."""

TIMEOUT, TIMEOUT_PER_FUNCTION = 2.0, 0.01  # seconds for one proposal; some passes make code explode


@dataclass(slots=True)
class Chunk:
    """Proposals that are being evaluated."""

    proposals: list[dict[str, Passes]]
    begun: float
    costs: asyncio.Task[list[Costs]]


def by_name(names: Iterable[str], costs: Iterable[float]) -> dict[str, float]:
    """Return what functions cost, by their names."""
    return dict(zip(names, map(float, costs), strict=True))


async def costs_of(
    lane: Env, names: Sequence[str], observation: str, proposals: Sequence[Mapping[str, Passes]]
) -> list[Costs]:
    """Return the cost of each function after each proposal, without functions whose passes fail.

    Args:
        lane: at the state to start from; it stays there.
        names: the names of all functions, in the order of the observation.
        observation: the observation space of function costs.
        proposals: the passes for each function, by name.
    """
    lists, timeout = [(text_of(one),) for one in proposals], TIMEOUT + TIMEOUT_PER_FUNCTION * len(names)
    results = await lane.expand_texts(lists, observation_spaces=[observation], reward_spaces=[], timeout=timeout)
    costs: list[Costs] = []
    for proposal, result in zip(proposals, results, strict=True):
        if result.error is None:
            costs.append((by_name(names, result.observation[0]), result.state))
        elif len(proposal) > 1:  # one of the halves may be valid
            items = list(proposal.items())
            halves = [dict(items[: len(items) // 2]), dict(items[len(items) // 2 :])]
            parts = await costs_of(lane, names, observation, halves)
            known = zip(halves, (part for part, _ in parts), strict=True)
            costs.append(({name: part[name] for half, part in known for name in half if name in part}, 0))
        else:
            costs.append(({}, 0))
    return costs


async def go_on(lanes: Sequence[Env], actions: Actions) -> list[Env]:
    """Apply actions to lanes, and return those that are at the same program then.

    Lanes on which an action fails, and those whose program differs from the first one's because a pass is not
    deterministic, are closed.
    """
    succeed = await spread(each(lanes, lambda lane: _succeeds(lane, actions)))
    programs = [lane.state_hash if succeeds else None for lane, succeeds in zip(lanes, succeed, strict=True)]
    first = next((program for program in programs if program is not None), None)
    left = []
    for lane, program in zip(lanes, programs, strict=True):
        if program is None or program != first:
            await lane.close()
        else:
            left.append(lane)
    return left


async def arrives(lane: Env, actions: Actions) -> bool:
    """Return whether actions lead somewhere from the start again, as they may not if a pass is not deterministic."""
    await lane.reset()
    return await _succeeds(lane, actions)


async def _succeeds(lane: Env, actions: Actions) -> bool:
    try:
        return not actions or not (await lane.step_texts(actions, observation_spaces=[]))[2]
    except AiocgError:
        return False


AHEAD = 4  # chunks in flight, whatever the number of lanes, so that the result does not depend on it
WORK = {"IrInstructionCount": 3_000, "ObjectImageSizeMinsizeBytes": 8_000}  # in the proposals of one chunk, roughly
MOST = 8  # proposals in one chunk
PATIENCE = 60  # chunks without progress after which the search leaves a base
FRUITLESS = 3  # stages without progress after which an attempt ends
NEXT = 6  # most bases of a later stage
PER_NEXT = 20  # evaluations that there is time for per base of a later stage
DECIDING = 0.3  # share of the budget in which calls are decided
TRIALS, SLOW_TRIALS = 8, 4  # lists of marks that are evaluated together; where a level takes long
DECISIONS = 1 << 20  # of the seed of decisions
PER_BASE = 250  # evaluations in the budget per starting base
TWO_BASES = 30  # evaluations in the budget from which two bases are tried even so
ROOM_FOR_RAW = 45  # evaluations in the budget from which `ARGUMENTS` can become smaller than what a level has made
COMPETING, LATER = 0.7, 0.5  # shares of what is left of the budget in which starting and later bases compete
FIRST_ROUND = 0.65  # share of a competition that its first round takes: enough for most of the core set
GRACE = 1.0  # seconds for baselines that take no longer, whatever the budget
OVERTIME = 1.1  # share of the time until which what was found last may be evaluated
CLEANING = 0.9  # used part of a budget of evaluations until which cleanups are tried
TOGETHER = 4  # cleanups that are tried before the search looks at the clock
CLEANUP = 0.5  # times what a level takes, for a cleanup
OPENING = 1.5  # times what a level takes, for opening a base and trying something on it
CONFIRMING = 0.1  # share of the time that is kept for running what was found
LONGEST_BEGINNING = 10.0  # seconds that the first baselines may take, if the time is shorter
EARLY = ("O0", "OzMinsize")  # the program as it is, and what is nearly always the best level
SLOW = 1.0  # seconds of a baseline; chunks in flight are few then, so that none is still evaluated at the end
ENDING, LONGEST_ENDING = 0.25, 0.4  # baselines whose time is kept for the end of the search, and the most, as a share
BRIEF = 0.02  # share of the budget that these may take if the search is to evaluate all baselines before it begins
BESIDE = 0.15  # share of the lanes' time that baselines may take while the search runs

DEFAULT_BUDGET = Budget(seconds=10)

COSTS = {  # observation of a program's cost -> observation of its functions' costs
    "IrInstructionCount": "FunctionInstructionCounts",
    "ObjectImageSizeMinsizeBytes": "FunctionImageSizesMinsize",
}
OF_CODE = ("ObjectImageSizeMinsizeBytes",)  # costs for which code is generated
SPEED = 150_000  # units of cost that a lane evaluates in a second, roughly; decides the number of starting bases


async def functionwise(
    env: Env,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    resume: SearchState | None = None,
    lanes: int | None = None,
    watch: WatchCallback | None = None,
    run: bool = True,
    codegen: bool = True,
) -> SearchResult:
    """Optimise each function of a program separately, all at the same time.

    An evaluation runs different passes on every function and observes the cost of each, so it tests one sequence per
    function, and the gains add up exactly. The starting point matters too, for example how much is inlined: several
    bases compete during the first part of the budget. The functions of the best base are then combined, the module is
    cleaned up, and its functions are searched again.

    The result is never worse than the best of LLVM's optimisation levels that `SearchResult.baselines` has: none, if
    the first of them take longer than there is time. Where they take long, all but `clang -Oz` are evaluated beside the
    search, and those that are not finished when the time is up are left out. The same seed and number of evaluations
    give the same result, whatever the number of lanes.

    Args:
        env: an LLVM environment, with a reward space that is based on the instruction count or on the bytes in the
            image of functions marked `minsize`.
        budget: when to stop; 10 seconds if None.
        seed: the seed of all random choices.
        progress: called from time to time.
        resume: the `state` of an earlier result: what that found is the first of the bases, and nothing else of it is
            known.
        lanes: environments that share the work, one per worker if None.
        watch: told of each candidate when it was evaluated; returning False ends the search soon.
        run: whether programs are run to see that they still do what they did.
        codegen: whether options of the code generator may be chosen where bytes count; whoever generates code for what
            was found needs them.

    Raises:
        ValueError: if the environment has no such reward space, or `resume` is of another search.
        ServiceError: if the workers fail.
    """
    options = Options(budget=budget, progress=progress, resume=resume, lanes=lanes, watch=watch, run=run)
    return await _search("functionwise", env, seed, codegen, 0.0, **options)


async def decide(
    env: Env,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    resume: SearchState | None = None,
    lanes: int | None = None,
    watch: WatchCallback | None = None,
    run: bool = True,
    codegen: bool = True,
    passes: bool = False,
) -> SearchResult:
    """Decide which calls of a program `clang -Oz` inlines and which it keeps.

    It begins with what LLVM decides by itself, and changes the mark of one or a few calls at a time. A change can make
    a difference in few functions only, so an evaluation tests many changes, as long as no two concern the same
    function, and the gains add up. What helps is kept, if all of it together makes the program smaller.

    The list that is found decides calls and has the passes of `clang -Oz`, so `advice` can say what it is in the
    source. Where nothing but size counts, `functionwise` finds smaller programs.

    Args:
        env: an LLVM environment with a reward space that `functionwise` takes.
        budget, seed, progress, resume, lanes, watch, run, codegen: see `functionwise`.
        passes: whether `functionwise` goes on after a part of the budget, with what was decided as its first base.

    Raises:
        ValueError, ServiceError: as `functionwise`.
    """
    options = Options(budget=budget, progress=progress, resume=resume, lanes=lanes, watch=watch, run=run)
    return await _search("decide", env, seed, codegen, DECIDING if passes else 1.0, **options)


async def _search(
    name: str, env: Env, seed: int, codegen: bool, deciding: float, **options: Unpack[Options]
) -> SearchResult:
    reward = env.reward_spaces[reward_space_of(env)]
    cost = getattr(reward, "cost", "")
    if cost not in COSTS:
        raise ValueError(
            f"{name} knows what each function costs for rewards of {' and '.join(COSTS)}, not for {reward.name}"
        )
    whole, run, resume = checked(options["budget"], DEFAULT_BUDGET), options["run"], options["resume"]
    meter, total = whole.part_of_time(1 - CONFIRMING if run else 1).start(), whole.start()
    alphabet = SpaceAlphabet(env.action_space)
    progress = options["progress"] and _finished(options["progress"], cost)
    base = begin_state(name, env)
    watch = options["watch"]
    record = Record(base, meter, lambda one: (sum(map(len, one)), alphabet.rank(one)), progress, resume, watch)
    before, seeds = (record.actions, (seed, resume.evaluations)) if resume is not None else ((), (seed,))
    known = baselines(env)
    *sequences, passes = await usable(env, (*core(COSTS[cost]), PASSES))
    checker = Checker(env, run=run, seconds=whole.seconds, finished=functools.partial(marked, cost=cost))
    async with open_lanes(env, options["lanes"], rewarded=False) as crew:
        first = (CODEGEN,) if codegen and cost in OF_CODE else ()
        search = _Search(record, cost, seeds, progress, checker.assembles, first, sequences, passes, deciding)
        try:
            await spread([lambda: search.whole(crew, known, before, total), lambda: checker.begin(known)])
            record.meter.budget = whole
            await search.finish(crew, total)
            await search.confirm(crew[0], checker, known)
            await checker.explain()
        finally:
            await checker.close()
    record.actions = marked(record.actions, cost)
    await go_to(env, record.actions)
    found = record.result(complete=search.exhausted, baselines=known, earned=search.earned, checks=checker.checks())
    return replace(found, levels=search.levels)


def _with(codegen: str, settings: Sequence[str]) -> str:
    """Return an action that chooses further options of the code generator."""
    return f"{';'.join((codegen[:-1], *filter(None, settings)))}>"


def _finished(progress: ProgressCallback, cost: str) -> ProgressCallback:
    """Return a callback that is given actions as the result has them."""
    return lambda now: progress(replace(now, actions=marked(now.actions, cost)))


@dataclass(slots=True, eq=False)
class _Search:
    """A running search.

    Args:
        record: keeps the best result.
        cost: the observation of a program's cost.
        seed: the seed of all random choices, one number or several.
        progress: also called with results that are not in the record yet.
        watch: told of each candidate.
        assembles: whether code can be generated for what actions lead to; other bases are not searched.
        codegen: the action by which the code generator takes options, if these may be chosen.
        core: sequences that are tried first.
        passes: what others are made of.
        deciding: share of the budget in which calls are decided; if it is all, passes are not searched.
    """

    _record: Record
    _cost: str
    _seed: Sequence[int]
    _progress: ProgressCallback | None
    _assembles: Callable[[Actions], Awaitable[bool]]
    _codegen: Actions
    _core: Sequence[Passes]
    _passes: Passes
    _deciding: float
    _evaluated: list[Outcome] = field(default_factory=list, init=False)  # whole programs
    _left_behind: list[tuple[float, Actions]] = field(default_factory=list, init=False)  # rewards and actions of bases
    _late: dict[str, Actions] = field(default_factory=dict, init=False)  # baselines that are evaluated at the end
    _meter: Meter = field(init=False)
    _framed: bool = field(default=False, init=False)  # whether functions may have frame pointers
    _costs: dict[int, float] = field(default_factory=dict, init=False)  # of whole programs, by state
    _scale: int = field(default=1, init=False)
    _start: float = field(default=0.0, init=False)
    _planned: int = field(default=0, init=False)
    _chunk_seconds: float = field(default=0.0, init=False)
    _forks: WeakSet[Env] = field(default_factory=WeakSet, init=False)  # closed at the end of an attempt
    exhausted: bool = field(default=False, init=False)
    earned: dict[str, float] = field(default_factory=dict, init=False)
    levels: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._meter = self._record.meter

    async def begin(self, crew: list[Env], known: Mapping[str, Actions], before: Actions = ()) -> None:
        """Evaluate baselines, beginning with the unchanged program, and what was found `before`.

        Only the first lane computes rewards. If the first few take long, the others wait for `run`, and time is kept
        for the end of the search.
        """
        self._late = {name: actions for name, actions in known.items() if name not in EARLY}
        early = {name: known[name] for name in EARLY if name in known}
        framed = known.get(FRAME_POINTERS, early.get("OzMinsize", ()))
        first = (*framed, *self._codegen)
        more = [first] if first not in early.values() else []

        async def levels() -> list[Candidate]:
            await self._levels(crew[:1], early)
            return await evaluate(crew[:1], [first], [COSTS[self._cost]])  # which its worker needs next

        async def beginning() -> list[Candidate]:
            return await evaluate(crew[-1:], more, [self._cost])

        _, results = await spread([levels, beginning])
        self._framed = self._learn((), more, results, told=False) not in ([], [None])
        if self._codegen and not self._framed:  # inline assembly needs the register, or the release has no options
            framed = early["OzMinsize"]
            (cost,) = await self._evaluate(crew[:1], (), [(*framed, *self._codegen)])
            self._codegen = self._codegen if cost is not None else ()
        if self._codegen and self._used <= BRIEF and self._left > MOST_CHOICES:
            await self._choose_codegen(crew, framed)
        self._planned = self._meter.evaluations
        if before:
            await self._levels(crew[:1], {"found": before})
        seconds = self._meter.seconds
        if seconds is None or self._meter.elapsed <= BRIEF * seconds:
            await self._levels(crew, self._late)
            self._late = {}
        else:
            ending = min(ENDING * self._meter.elapsed / len(EARLY), LONGEST_ENDING * seconds)
            self._meter.budget = replace(self._meter.budget, seconds=seconds - ending)

    async def _choose_codegen(self, lanes: list[Env], actions: Actions) -> None:
        """Choose options of the code generator for what actions lead to: those that help alone, as far as together."""
        (current,) = self._codegen
        costs = await self._evaluate(lanes, (), [(*actions, _with(current, [one])) for one in ("", *SETTINGS)])
        known = zip(costs[1:], SETTINGS, strict=True)
        better = sorted((cost, one) for cost, one in known if cost is not None and cost < (costs[0] or 0.0))
        helpful = [one for _, one in better]
        lists = [_with(current, helpful[: count + 1][::-1]) for count in range(len(helpful))]
        together = await self._evaluate(lanes, (), [(*actions, one) for one in lists])
        ranked = zip([*costs[:1], *together], [current, *lists], strict=True)
        self._codegen = (min((cost, one) for cost, one in ranked if cost is not None)[1],)

    async def whole(self, crew: list[Env], known: Mapping[str, Actions], before: Actions, total: Meter) -> None:
        """Evaluate baselines and search, until the time is up."""
        longest = None if total.seconds is None else max(LONGEST_BEGINNING, OVERTIME * total.seconds)
        with anyio.move_on_after(longest) as beginning:
            await self.begin(crew, known, before)
        self.levels = total.elapsed
        self._chunk_seconds = self._level_seconds
        if beginning.cancelled_caught:
            self._late = {}  # without the first of them no cost is known
            return
        with anyio.move_on_after(total.left()):
            if self._deciding:
                await self._decide(crew)
            if self._deciding < 1:
                await self.run(crew)

    async def finish(self, crew: list[Env], total: Meter) -> None:
        """Evaluate what was left behind, if there is time for it.

        That is the best base, the baselines that are left, and options of the code generator for one that is the best.
        """
        best, actions = max(self._left_behind, default=(0.0, ()))
        grace = GRACE if self._level_seconds * len(self._late) <= GRACE / 2 else 0.0
        with anyio.move_on_after(max(total.left(OVERTIME), grace)):
            if best > self._record.reward and total.left(OVERTIME) >= self._level_seconds:
                await self._evaluate(crew[:1], (), [actions])
            await self._evaluate_late(crew, lambda: max(total.left(), grace))
            found, enough = self._record.actions, total.left(OVERTIME) >= self._level_seconds
            if enough and self._left > 0 and found and not any(one.startswith(PREFIX) for one in found):
                await self._evaluate(crew[:1], (), [(*found, one) for one in self._codegen])

    async def _evaluate_late(self, crew: list[Env], left: Callable[[], float] = lambda: math.inf) -> None:
        """Evaluate baselines that were put off, one at a time, as far as there is time for each."""
        for name in sorted(self._late, key=lambda name: name != FRAME_POINTERS):
            if self._level_seconds > left():
                return
            await self._levels(crew[-1:], {name: self._late[name]})
            del self._late[name]

    async def _levels(self, lanes: list[Env], known: Mapping[str, Actions]) -> None:
        lists = list(known.values())
        costs = self._learn((), lists, await evaluate(lanes, lists, [self._cost]), told=False)
        self.earned |= {name: self._reward(cost) for name, cost in zip(known, costs, strict=True) if cost is not None}

    async def run(self, crew: list[Env]) -> None:
        """Search until the budget is used up or, without one, nothing helps; all lanes start at the initial state.

        Baselines that are left are evaluated meanwhile, one at a time, where there is a limit of time that they take
        little of.
        """
        if not self._has_time_for(OPENING, 1):
            return
        seconds = self._meter.seconds
        if seconds is None or self._level_seconds * len(self._late) > BESIDE * seconds * len(crew):
            await self._run(crew)
            return
        await spread([functools.partial(self._evaluate_late, crew), functools.partial(self._run, crew)])

    async def _run(self, crew: list[Env]) -> None:
        for attempt in itertools.count():
            searched = await self._attempt(crew, attempt)
            self.exhausted = self._used < 1 and (not searched or not self._meter.used)
            if self.exhausted or self._used >= 1 or not self._has_time_for(OPENING, len(crew)):
                return

    async def confirm(self, lane: Env, checker: Checker, known: Mapping[str, Actions]) -> None:
        """Run what was found, the best first, and keep the first that does what the unoptimised program does.

        This comes last, as it takes long and programs are rarely broken. What cannot be made again is passed over. The
        lane is at the result then.
        """
        record, left = self._record, self._evaluated
        while True:
            record.actions, record.reward = (), 0.0
            await checker.offer(record, left)
            if not record.actions:
                await checker.offer(record, [one for one in left if one.actions in known.values()])
            if not record.actions or await arrives(lane, marked(record.actions, self._cost)):
                return
            left = [one for one in left if one.actions != record.actions]

    async def _decide(self, crew: list[Env]) -> None:
        """Decide which calls `clang -Oz` inlines, until a share of the budget is used or nothing is left to try."""
        until = self._used + self._deciding * (1 - self._used)
        starts = [(mark, *self._codegen) for mark in ((MARKS[0], MARK) if self._framed else (MARK,))]
        actions = starts[0]
        if len(starts) > 1 and self._left > 1:
            costs = await self._evaluate(crew, (), [(*start, CLANG_OZ) for start in starts])
            self._planned += len(starts)
            known = [(cost, start) for cost, start in zip(costs, starts, strict=True) if cost is not None]
            _, actions = min(known, default=(0.0, actions))
        forks = [await lane.fork() for lane in crew]
        self._forks.update(forks)
        try:
            lanes = await go_on(forks, actions)
            if lanes:
                await self._decide_from(lanes, actions, until)
        finally:
            await close_all(forks)

    async def _decide_from(self, lanes: list[Env], actions: Actions, until: float) -> None:
        """Decide calls of the program that the lanes are at, to which these actions have led."""
        sites, inlined, removable = await lanes[0].observe("CallSites", "InlinedByOz", "RemovableFunctions")
        decisions = Decisions(sites, list(map(bool, inlined)), removable, (*self._seed, DECISIONS))
        (start,) = await self._decided(lanes, actions, [decisions.text(decisions.marks)])
        if not sites or start is None:
            self.exhausted = True
            return
        least = start[0]
        decisions.take(decisions.marks, start[1])
        slow = self._meter.seconds is not None and self.levels > SLOW
        while self._used < until and self._left > 0:
            trials = decisions.propose(min(SLOW_TRIALS if slow else TRIALS, self._left))
            self.exhausted = not trials
            if not trials or (self._deciding < 1 and not decisions.listed):
                break
            found = await self._try(lanes, decisions, trials)
            for marks in decisions.combined(found) if found else ():
                (now,) = await self._decided(lanes, actions, [decisions.text(marks)])
                if now is not None and now[0] < least:
                    least = now[0]
                    decisions.take(marks, now[1])
                    break
        if self._left > 0:
            await self._decided(lanes, actions, [decisions.text(marks) for marks in decisions.lighter()[: self._left]])

    async def _try(self, lanes: list[Env], decisions: Decisions, trials: Sequence[Trial]) -> list[Gain]:
        """Evaluate marks by the costs of functions alone, and return what has gained."""
        lists = [(decisions.text(trial.marks), CLANG_OZ) for trial in trials]
        self._planned += len(lists)
        results = await evaluate(lanes, lists, ["Functions", COSTS[self._cost]])
        self._meter.evaluations += len(results)
        found = list[Gain]()
        for trial, one in zip(trials, results, strict=True):
            if one.error is None:
                found += decisions.gains(trial, by_name(*one.observation))
        return found

    async def _decided(
        self, lanes: list[Env], before: Actions, texts: Sequence[str]
    ) -> list[tuple[float, dict[str, float]] | None]:
        """Evaluate marks; return for each the cost of the program and those of its functions, None if they fail."""
        lists = [(*filter(None, (text,)), CLANG_OZ) for text in texts]
        self._planned += len(lists)
        results = await evaluate(lanes, lists, [self._cost, "Functions", COSTS[self._cost]])
        costs = self._learn(before, lists, results)
        known = zip(costs, results, strict=True)
        return [None if cost is None else (cost, by_name(*one.observation[1:])) for cost, one in known]

    async def _attempt(self, crew: list[Env], attempt: int) -> bool:
        """Let bases compete, including the best known program, and continue from the winner while that helps.

        Returns:
            Whether there was a function to optimise.
        """
        site, stage, idle = Site((), crew, Population({}, []), 0.0), 0, 0
        bases: Sequence[Actions] = self._bases(len(crew))
        sites: list[Site] = []
        try:
            while self._used < 1 and idle < FRUITLESS:
                before = self._record.reward
                if stage and not self._has_time_for(OPENING * len(bases), len(site.lanes)):
                    break
                until = self._used + (COMPETING if stage == 0 else LATER) * (1 - self._used)
                sites = await self._open(site, bases, (attempt, stage))
                if not (sites or stage):  # what all inline cannot be assembled
                    sites = await self._open(site, [()], (attempt, stage))
                if stage:
                    await close_all(site.lanes)
                if not sites:
                    break
                site = await self._compete(sites, until)
                bases = await self._combine(site)
                stage, idle = stage + 1, 0 if self._record.reward > before else idle + 1
            return stage > 0
        except asyncio.CancelledError:  # the time is up in the middle of a stage
            self._left_behind += [(self._reward(one.cost), one.combined()) for one in sites]
            raise
        finally:
            await close_all(list(self._forks))

    @property
    def _left(self) -> int:
        """Number of evaluations that may still be started."""
        limit = self._meter.evaluation_limit
        return sys.maxsize if limit is None else limit - self._planned

    @property
    def _has_time(self) -> bool:
        """Whether another chunk can be evaluated in the time, if it takes as long as the last one."""
        return self._meter.elapsed + self._chunk_seconds <= (self._meter.seconds or 0.0)

    @property
    def _level_seconds(self) -> float:
        """About how long a level takes."""
        return self.levels / len(EARLY)

    def _has_time_for(self, levels: float, lanes: int) -> bool:
        """Whether some lanes can do work that takes so many times as long as a level in the time that is left."""
        left = math.inf if self._meter.seconds is None else self._meter.seconds - self._meter.elapsed
        return self._level_seconds * levels / lanes <= left

    @property
    def _used(self) -> float:
        """The used part of the budget, from 0 to 1."""
        return min(self._meter.used, 1.0)

    def _bases(self, lanes: int) -> Sequence[Actions]:
        """Return as many bases as the budget allows, beginning with the best program so far."""
        limit, seconds = self._meter.evaluation_limit, self._meter.seconds
        in_time = math.inf if seconds is None else seconds * lanes * SPEED / max(self._start, 1)
        planned = in_time if limit is None else min(limit, in_time)
        large = self._cost in OF_CODE and in_time < ROOM_FOR_RAW
        marks = MARKS[:1] if self._framed else (MARK,)
        bases = (self._record.actions, *([(*marks, *base) for base in LARGE_BASES] if large else BASES))
        count = int(max(1 if planned < TWO_BASES else 2, min(planned / PER_BASE, len(bases))))
        return [(*base, *(one for one in self._codegen if one not in base)) for base in bases[:count]]

    async def _evaluate(self, lanes: list[Env], before: Actions, candidates: Sequence[Actions]) -> list[float | None]:
        """Evaluate lists of actions from the lanes' state, offer them to the record, and return the costs."""
        return self._learn(before, candidates, await evaluate(lanes, candidates, [self._cost]))

    def _learn(
        self, before: Actions, candidates: Sequence[Actions], results: Sequence[Candidate], *, told: bool = True
    ) -> list[float | None]:
        """Offer what was evaluated to the record, and return the costs."""
        costs = [None if one.error is not None else float(one.observation[0]) for one in results]
        self._meter.evaluations += len(results) if told else 0
        if not self._evaluated:
            self._learn_scale(results, costs)
        for actions, one, cost in zip(candidates, results, costs, strict=True):
            if cost is not None:
                outcome = Outcome(self._reward(cost), (*before, *actions), one.state)
                self._costs[one.state] = cost
                self._evaluated.append(outcome)
                self._record.offer(outcome.actions, outcome.reward)
                if told:
                    self._record.tell(outcome)
        self._record.report()
        return costs

    def _learn_scale(self, results: Sequence[Candidate], costs: Sequence[float | None]) -> None:
        """Find the whole number that the reward divides costs by; the first result is the unchanged program."""
        self._start = costs[0] or 0.0
        for one, cost in zip(results, costs, strict=True):
            if cost is not None and one.reward:
                self._scale = round((self._start - cost) / one.reward)

    def _reward(self, cost: float) -> float:
        return (self._start - cost) / self._scale

    async def _open(self, site: Site, bases: Sequence[Actions], stage: tuple[int, int]) -> list[Site]:
        """Open bases, except those that fail or give the same program as an earlier one."""
        jobs = [
            functools.partial(self._open_one, site, base, (*self._seed, *stage, number))
            for number, base in enumerate(bases)
        ]
        found: dict[int, Site] = {}
        for opened in await spread(jobs):
            if opened is None:
                continue
            program = opened.lanes[0].state_hash
            if program in found or not opened.population.functions:
                await close_all(opened.lanes)
            else:
                found[program] = opened
        return list(found.values())

    async def _open_one(self, site: Site, base: Actions, seed: Sequence[int]) -> Site | None:
        actions = (*site.actions, *base)
        if not await self._assembles(actions):
            return None
        forks = [await lane.fork() for lane in site.lanes]
        self._forks.update(forks)
        lanes = await go_on(forks, base)
        if not lanes:
            return None
        spaces = ("Functions", COSTS[self._cost], "Calls", "RemovableFunctions")
        try:
            names, costs, calls, removable = await lanes[0].observe(*spaces)
            total = self._costs.get(lanes[0].state_hash or 0)
            total = await lanes[0].observe(self._cost) if total is None else total
        except AiocgError:
            await close_all(lanes)
            return None
        pairs = [(caller, callee) for caller, callee in map(NAME.findall, calls)]
        marks, known = self._marks(actions), by_name(names, costs)
        population = Population(known, seed, self._core, self._passes, marks, pairs, removable)
        return Site(actions, lanes, population, float(total) - population.start)

    def _marks(self, actions: Actions) -> Passes:
        """Return the marks that functions may be given: the last is for those that have others from before."""
        if self._cost == "IrInstructionCount":
            return ()
        marked = [action for action in actions if "mark<" in action]
        known: Passes = MARKS if any(mark in action for action in marked for mark in MARKS[:-1]) else MARKS[:-1]
        if len(marked) == 1:  # all have this one
            known = tuple(mark for mark in known if mark != marked[0])
        return known if self._framed else tuple(mark for mark in known if "frame" not in mark)

    async def _compete(self, sites: list[Site], until: float) -> Site:
        """Improve bases in rounds, dropping the worse half after each; return the best one."""
        rounds = (len(sites) - 1).bit_length() + 1
        for number in range(rounds):
            last = number + 1 == rounds
            share = FIRST_ROUND if number == 0 and not last else 1 / (rounds - number)
            end = self._used + (until - self._used) * share
            for index, site in enumerate(sites):
                await self._improve(site, self._used + (end - self._used) / (len(sites) - index))
            sites.sort(key=attrgetter("cost" if last else "promise"))
            keep = 1 if last else (len(sites) + 1) // 2
            while len(sites) > keep:
                left = sites.pop()
                self._left_behind.append((self._reward(left.cost), left.combined()))
                await close_all(left.lanes)
        return sites[0]

    async def _improve(self, site: Site, until: float) -> None:
        """Try passes for the functions of a base until a part of the budget is used, or nothing helps any more.

        Even if that part is used already, the first chunks, mostly with sequences of the core set, are tried.
        """
        population = site.population
        names = list(population.functions)
        size = max(1, min(MOST, int(WORK[self._cost] // max(population.start, 1))))
        pending: deque[Chunk] = deque()
        idle, cost = 0, population.cost
        slow = self._meter.seconds is not None and self._level_seconds > SLOW
        ahead = len(site.lanes) if slow else AHEAD  # workers do what is no longer wanted, too
        try:
            while idle < PATIENCE and self._used < 1:
                while len(pending) < ahead and self._left > 0 and (not pending or not slow or self._has_time):
                    proposals = [population.propose() for _ in range(min(size, self._left))]
                    self._planned += len(proposals)
                    job = costs_of(site.next_lane(), names, COSTS[self._cost], proposals)
                    pending.append(Chunk(proposals, self._meter.elapsed, asyncio.create_task(job)))
                if not pending:
                    break
                await self._settle(site, pending.popleft())
                idle, cost = 0 if population.cost < cost else idle + 1, population.cost
                if self._used >= until:
                    break
            while pending and self._used < 1:
                await self._settle(site, pending.popleft())
        finally:
            for chunk in pending:
                chunk.costs.cancel()
            await asyncio.gather(*(chunk.costs for chunk in pending), return_exceptions=True)

    async def _settle(self, site: Site, chunk: Chunk) -> None:
        """Learn the results of a chunk, and report the base's reward if it is the best."""
        found = await chunk.costs
        self._chunk_seconds = self._meter.elapsed - chunk.begun
        self._meter.evaluations += len(found)
        for proposal, (cost, state) in zip(chunk.proposals, found, strict=True):
            site.population.learn({name: proposal[name] for name in cost if name in proposal}, cost)
            if state:
                reward = self._reward(site.rest + sum(cost.values()))
                self._record.tell(Outcome(reward, (*site.actions, text_of(proposal)), state))
        reward, meter = self._reward(site.cost), self._meter
        if self._progress is not None and reward > self._record.reward:
            self._progress(Progress(site.combined(), reward, 0, meter.evaluations, meter.elapsed))
        else:
            self._record.report()

    async def _combine(self, site: Site) -> list[Actions]:
        """Apply a base's best passes on all lanes; return the best cleanups (doing nothing is one) as next bases."""
        combined = site.combined()[len(site.actions) :]
        site.lanes = await go_on(site.lanes, combined)
        if not site.lanes:
            return []
        site.actions = (*site.actions, *combined)
        candidates = ((), *CLEANUPS) if self._left > len(CLEANUPS) else ((),)
        costs = await self._evaluate(site.lanes, site.actions, candidates[:1])
        count = TOGETHER if self._has_time_for(len(candidates), len(site.lanes)) else len(site.lanes)
        until = CLEANING if self._meter.seconds is None else 1.0
        while len(costs) < len(candidates) and self._used < until and self._has_time_for(CLEANUP, 1):
            costs += await self._evaluate(site.lanes, site.actions, candidates[len(costs) : len(costs) + count])
        self._planned += len(costs)
        ranked = sorted((cost, number) for number, cost in enumerate(costs) if cost is not None)
        return [candidates[number] for _, number in ranked[: self._bases_of_next_stage()]]

    def _bases_of_next_stage(self) -> int:
        used = self._used
        planned = self._meter.evaluations * LATER * (1 - used) / used if used else sys.maxsize
        return max(1, min(NEXT, int(planned / PER_NEXT)))
