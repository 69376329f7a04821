"""A search for lists of actions after which a program runs faster.

Running times are noisy, so every candidate is raced against the fastest so far. Most are clearly slower and are given
up after two runs; what is left is run in turns with the fastest, in ever longer heats. At the end the winner and the
compiler's levels are measured again, in turns, and only what is certainly faster than the levels is an answer. Nothing
else is measured on the machine meanwhile, and a program that does not print what it should is no candidate.
"""

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Iterable

import anyio

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.env.env import Env
from aiocg.errors import ServiceError
from aiocg.search._driver import SpaceAlphabet
from aiocg.search._evolution import Evolver
from aiocg.search.budget import Budget, checked
from aiocg.search.lanes import close_all, go_to
from aiocg.search.reference import first_line
from aiocg.search.result import (
    Checks,
    ProgressCallback,
    Record,
    SearchResult,
    SearchState,
    WatchCallback,
    begin_state,
)
from aiocg.search.timing import ALONE_AND_ONCE, LEVELS, Contender, Timing, measuring, run_in_turns, speedup
from aiocg.search.tuner import FAILED, Outcome
from aiocg.spaces.rewards import RuntimeReward
from aiocg.states.behaviour import Behaviour

Actions = tuple[str, ...]

_OPTIONS = ("inliner-threshold=50", "inliner-threshold=1000", "loop-unrolling=0", "loop-interleaving=0")
STARTS: tuple[Actions, ...] = (
    LEVELS["O3"],
    *((f"{{{option}}}default<O3>",) for option in _OPTIONS),
    LEVELS["O2"],
    ("default<O3>", "default<O3>"),
    ("default<O3>", "slp-vectorizer", "vector-combine", "instcombine"),
)
"""What the search begins with, before it changes these."""

DEFAULT_BUDGET = Budget(seconds=30.0)
FIRST = 2  # runs after which a candidate is given up if each was slower than the fastest so far usually is
HEATS = (3, 5, 8)  # runs in turns with the fastest so far and -O3; a candidate must win after each of them
RECENT = 16  # runs of the fastest so far that count, since a machine may become slower or faster
LEAST_RUNS, MOST_RUNS = 2, 6  # of each level before the search
LEVELS_SHARE = 0.2  # of the budget, after which there are no more of these
ROUNDS, LEAST_ROUNDS = 30, 5  # of the last measurement
CLOSE = 1.2  # how many times as slow a level may be to take part in that
PATIENCE = 10.0  # seconds to build a candidate, and how many times as slow as the program as it was one may run
BATCH = 4  # candidates that the tuner is asked for at once
STALE = 2_000  # proposals in a row that led nowhere new


async def racing(
    env: Env,
    *,
    seed: int = 0,
    budget: Budget | None = None,
    progress: ProgressCallback | None = None,
    resume: SearchState | None = None,
    watch: WatchCallback | None = None,
) -> SearchResult:
    """Make an LLVM program run faster: change the passes of -O3, as `evolve` does, and race what comes of it.

    The answer is -O3 unless something is certainly faster by the last measurement, in which the contenders are run in
    turns, 30 times each, or as often as half of the budget allows but at least 5 times. `SearchResult.timing` has
    what was measured. What is found depends on the machine, and differs from one time to the next. The environment is
    left at the answer.

    Args:
        env: with the reward `runtime`, on a program that can be run.
        seed: of all random choices.
        budget: when to stop; 30 seconds if there is none.
        progress: called now and then.
        resume: the `state` of an earlier result: what that found is raced first, and nothing else of it is known.
        watch: told of the levels and then of each candidate when it was raced, whose cost are the seconds that it runs;
            returning False ends the search soon.

    Raises:
        ValueError: when the environment has another reward space, or is not LLVM's; or `resume` is of another search.
        BenchmarkInitError: when the program cannot be run.
        ServiceError: when the program as it is does not do what is expected of it, or the worker cannot do its part.
    """
    base = begin_state("racing", env)
    if env.spec.worker != "llvm" or not isinstance(env.reward_spaces[base.reward_space], RuntimeReward):
        raise ValueError(f"racing is for the reward runtime of LLVM's environments, not {base.reward_space}")
    program = env.benchmark.program
    if program is None or not program.runs:
        raise BenchmarkInitError(
            str(env.benchmark.uri),
            "it has no runs, so its running time cannot be measured: say how a C or C++ file of your own is run "
            "(--run './program ARGUMENTS', or `BenchmarkProgram.runs`), or take a program that has runs, such as those "
            "of programs-v0",
        )
    meter = checked(budget, DEFAULT_BUDGET).start()
    record = Record(base, meter, len, progress, resume, watch)
    starts = STARTS if resume is None else (resume.actions, *STARTS)
    async with measuring(env, ALONE_AND_ONCE):
        race = Race(env, record)
        try:
            await race.begin()
            complete = await race.search(Evolver(SpaceAlphabet(env.action_space), seed, starts))
            timing, answer = await race.end()
        finally:
            with anyio.CancelScope(shield=True):
                await race.close()
        record.actions, record.reward = answer.actions, race.reward(answer.median)
    await go_to(env, record.actions)  # with the reward, which is measured again
    earned = {name: race.reward(one.median) for name, one in race.levels.items()}
    checks = Checks(Behaviour.SAME, "each run was compared with the program as it came")
    found = record.result(complete=complete, baselines=LEVELS, earned=earned, checks=checks)
    return dataclasses.replace(found, timing=timing)


class Race:
    """The contenders, and the fastest of them so far.

    Attributes:
        levels: by name, those that can be run.
        best: the fastest so far.
    """

    def __init__(self, env: Env, record: Record) -> None:
        self._env = env
        self._record = record
        self._known: dict[int, Outcome] = {}  # by state
        self._failures: Counter[str] = Counter()
        self._expected: object = None  # what the program prints and writes, where the benchmark does not know
        self._times = math.nan, math.nan  # medians of the fastest so far and of the level to compare with, in turns
        self._open: set[Contender] = set()
        self.levels: dict[str, Contender] = {}
        self.best: Contender

    async def begin(self) -> None:
        """Measure the compiler's levels."""
        if not await self._is_checked():
            self._expected = await self._env.observe("Execution")
        for name, actions in LEVELS.items():
            try:
                self.levels[name] = await self._enter(actions)
                await self.levels[name].warm_up()
            except ServiceError as error:
                if name == "O0":
                    raise
                self.levels.pop(name, None)
                self._failures[first_line(error)] += 1
        await run_in_turns(list(self.levels.values()), LEAST_RUNS)
        self.best = min(self.levels.values(), key=lambda one: one.median)
        for _ in range(MOST_RUNS - LEAST_RUNS):
            if self._record.meter.used < LEVELS_SHARE:
                await run_in_turns(list(self._close_levels().values()), 1)
        self.best = min(self._close_levels().values(), key=lambda one: one.median)
        for one in self.levels.values():
            self._known[one.env.state_hash] = outcome = await self._outcome(one)
            self._record.tell(outcome)
        self._times = self.best.median, self.levels[self._usual].median
        self._report()

    async def search(self, tuner: Evolver) -> bool:
        """Race what a tuner proposes; return False if the budget ended that."""
        meter, stale = self._record.meter, 0
        while stale < STALE:
            proposals = tuner.ask(BATCH)
            if not proposals:
                break
            for proposal in proposals:
                if not meter.allows(1) or self._is_late():
                    return False
                before = meter.evaluations
                outcome = await self._evaluate(proposal.actions)
                tuner.tell(proposal, outcome)
                stale += 1
                if meter.evaluations > before:
                    stale = 0
                    self._record.tell(outcome)
                self._report()
        return True

    async def end(self) -> tuple[Timing, Contender]:
        """Measure the fastest and the levels again; return that and the answer."""
        named = self._close_levels()
        if self.best not in named.values():
            named["found"] = self.best
        rounds = self._rounds()
        try:
            await _measure_anew(named.values(), rounds)
        except ServiceError as error:
            if named.pop("found", None) is None:
                raise
            self._failures[first_line(error)] += 1
            await _measure_anew(named.values(), rounds)
        baseline = min((name for name in named if name != "found"), key=lambda name: named[name].median)
        if speedup(named[self._usual].times, named[baseline].times)[1] <= 1:
            baseline = self._usual
        timing = Timing(baseline, {name: tuple(one.times) for name, one in named.items()}, dict(self._failures))
        return timing, named[timing.chosen]

    def reward(self, seconds: float) -> float:
        """Return what a running time earns: how much less it is than that of the program as it was."""
        return self.levels["O0"].median - seconds

    async def close(self) -> None:
        """Close all contenders."""
        for one in tuple(self._open):
            await self._leave(one)

    def _close_levels(self) -> dict[str, Contender]:
        """Return the levels that may be as fast as the fastest, and always the one to compare with."""
        limit = CLOSE * self.best.median
        return {n: one for n, one in self.levels.items() if n == self._usual or min(one.times) <= limit}

    @property
    def _usual(self) -> str:
        """The level to compare with."""
        return "O3" if "O3" in self.levels else "O0"

    async def _is_checked(self) -> bool:
        """Does the benchmark know what the run that is measured prints and writes?"""
        program = self._env.benchmark.program
        assert program is not None
        chosen = await self._env.send_parameter("llvm.get_measured_run", "")
        name = chosen or program.measured or next(iter(program.runs))
        run = program.runs.get(name)
        if run is None or run.output_varies:
            return True
        return run.expected_output_path is not None and None not in run.output_files.values()

    async def _evaluate(self, actions: Actions) -> Outcome:
        """Return what becomes of a list of actions: of most of them, after two runs."""
        (candidate,) = await self._env.expand_texts([actions], observation_spaces=[])
        if candidate.error is None and candidate.state in self._known:
            return self._known[candidate.state]
        self._record.meter.evaluations += 1
        if candidate.error is not None:
            self._failures[first_line(candidate.error)] += 1
            return Outcome(FAILED)
        actions = tuple([text for text, matters in zip(actions, candidate.effects, strict=True) if matters])
        contender = None
        try:
            contender = await self._enter(actions)
            wins = await self.wins(contender)
            outcome = await self._outcome(contender)
            if wins:
                contender, self.best = self.best, contender
        except ServiceError as error:
            self._failures[first_line(error)] += 1
            outcome = Outcome(FAILED, actions, candidate.state)
        finally:
            if contender is not None and contender not in self.levels.values():
                with anyio.CancelScope(shield=True):
                    await self._leave(contender)
        self._known[candidate.state] = outcome
        return outcome

    async def _outcome(self, contender: Contender) -> Outcome:
        """Return what a contender has come to, by all its runs so far."""
        source, env = self._env.action_space.targets_from, contender.env
        targets = tuple(await env.observe(source)) if source else None
        seconds = contender.median
        return Outcome(self.reward(seconds), contender.actions, env.state_hash, targets, (seconds,))

    async def wins(self, contender: Contender) -> bool:
        """Race a contender against the fastest so far, as long as it may win."""
        limit = PATIENCE * (1 + self.levels["O0"].median)
        await contender.warm_up(limit)
        for _ in range(FIRST):
            contender.times.append(await contender.run(limit))
        if min(contender.times) > statistics.median(self.best.times[-RECENT:]):
            return False
        contender.times.clear()
        usual = self.levels[self._usual]
        for runs in HEATS:
            await run_in_turns(list(dict.fromkeys((usual, self.best, contender))), runs)
            count = len(contender.times)
            if contender.median >= statistics.median(self.best.times[-count:]):
                return False
        self._times = contender.median, statistics.median(usual.times[-count:])
        return True

    async def _enter(self, actions: Actions) -> Contender:
        """Return a contender; one that prints something else than it should raises ServiceError."""
        env = await self._env.fork()
        try:
            await go_to(env, actions)
            if self._expected is not None and await env.observe("Execution") != self._expected:
                raise ServiceError("the program prints or writes something else than before")
        except BaseException:
            await close_all([env])
            raise
        contender = Contender(env, actions)
        self._open.add(contender)
        return contender

    async def _leave(self, contender: Contender) -> None:
        self._open.discard(contender)
        await contender.env.close()

    def _rounds(self) -> int:
        """Return how often the contenders are run at the end."""
        if self._record.meter.stopped:
            return LEAST_ROUNDS
        seconds, each = self._record.meter.seconds, self._round()
        return ROUNDS if seconds is None else max(LEAST_ROUNDS, min(ROUNDS, int(seconds / 2 / each)))

    def _round(self) -> float:
        """Seconds that the contenders of the last measurement take to run once, about."""
        return 3 * (self.best.median + 0.01)

    def _is_late(self) -> bool:
        """Is the rest of the time needed for the last measurement?"""
        meter = self._record.meter
        return meter.seconds is not None and meter.elapsed + self._rounds() * self._round() >= meter.seconds

    def _report(self) -> None:
        record, (best, usual) = self._record, self._times
        record.actions, record.reward = self.best.actions, self.reward(best)
        record.note = f"{1000 * best:.2f} ms, -{self._usual} {1000 * usual:.2f} ms"
        record.round += 1
        record.report()


async def _measure_anew(contenders: Iterable[Contender], rounds: int) -> None:
    contenders = tuple(contenders)
    for one in contenders:
        one.times.clear()
        await one.warm_up()
    await run_in_turns(contenders, rounds)
