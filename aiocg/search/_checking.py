"""Running a program before a search believes that it is the best, and comparing it with the reference.

A search that maximises a size alone finds out what a compiler makes of undefined behaviour: the smallest program is one
that does something else. So each new best is run first, and a list of actions that breaks the program has failed.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.env.env import Env
from aiocg.errors import AiocgError, ServiceError, WorkerFailure
from aiocg.search.lanes import bare_sibling, close_all
from aiocg.search.reference import (
    COMPARING,
    Levels,
    Reference,
    first_line,
    first_run,
    observation_of_runs,
    reference_of,
    run_again,
    runnable,
    runs_of,
    undefined,
)
from aiocg.search.result import Checks, Record
from aiocg.search.tuner import Outcome
from aiocg.states.behaviour import Behaviour
from aiocg.states.executions import in_words

MOST_WRONG = 3  # broken programs that are run when the time is up
SHORTEST, SHARE = 0.5, 0.2  # seconds that a run may take in any case, and the part of the budget
OVERTIME = 1.1  # part of the time after which no broken program is run
TRAPPING = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")  # as no library is needed for it
TEXT, CODE = "Ir", "ObjectFile"
MOST_UNASSEMBLED = 200  # candidates that do not assemble; after that, no other is believed
NEEDS_NO_CODE = "IrInstructionCount"  # the cost for which no code is generated
WARNINGS = "undefined_behaviour"  # the observation of a compiler that warns of it


class Checker:
    """Runs what a search has found: the benchmark's first run, which is its shortest.

    Args:
        env: the environment that is searched; only siblings of it are used.
        run: whether programs may be run.
        seconds: that the search may take; None if there is no limit.
        finished: what a search makes of the best list of actions at its end.
    """

    def __init__(
        self,
        env: Env,
        *,
        run: bool = True,
        seconds: float | None = None,
        finished: Callable[[tuple[str, ...]], tuple[str, ...]] = tuple,
    ) -> None:
        self._searched = env
        self._run = run
        self._patience = math.inf if seconds is None else max(SHORTEST, seconds * SHARE)
        self._finished = finished
        self._name = observation_of_runs(env)
        self._assembler = _Assembler(env)
        self.assembles = self._assembler.assembles
        self._env: Env | None = None  # at the start of an episode, while programs can be run
        self._reference = Reference(Behaviour.NOT_RUN, "programs were not run")
        self._known: dict[int, bool] = {}  # by state
        self._undefined: list[str] = []
        self._unwatched = ""
        self._runs = self._wrong = 0
        self._broken: tuple[str, ...] = ()
        self._seconds = 0.0

    async def begin(self, levels: Levels) -> None:
        """Learn what the program does as it came, and look for signs that its behaviour is undefined.

        Args:
            levels: the compiler's own levels.
        """
        started = time.monotonic()
        if self._searched.spec.worker in COMPARING:
            reason = "what each kernel computes was compared with NumPy before it was measured"
            self._reference = Reference(Behaviour.SAME, reason)
            return
        self._reference = found = await self._learned(levels)
        self._undefined += found.undefined
        self._known |= dict.fromkeys(found.states, True)
        if found.right:
            self._env = await bare_sibling(self._searched)
            await self._env.reset(benchmark=found.benchmark)
        await self._look_for_undefined()
        self._seconds += time.monotonic() - started

    async def _learned(self, levels: Levels) -> Reference:
        if not self._run:
            return Reference(Behaviour.NOT_RUN, "it was not to be run")
        if not self._name:
            return Reference(Behaviour.NOT_RUN, f"{self._searched.spec.id} runs no programs")
        try:
            target = first_run(runnable(self._searched.benchmark))
        except DatasetError as error:
            return Reference(Behaviour.NOT_RUN, first_line(error))
        return await reference_of(self._searched, target, levels, self._patience)

    async def offer(self, record: Record, found: Sequence[Outcome]) -> list[Outcome]:
        """Offer outcomes to a record, the best first; what would be a new best is run before.

        When the time is up, only a few broken programs are run, and what is left then is not believed, except for what
        is known already.

        Args:
            record: keeps the best.
            found: outcomes that have not failed.

        Returns:
            Those whose programs do not assemble, do something else than the reference, or are not believed.
        """
        wrong: list[Outcome] = []
        unassembled: list[Outcome] = []
        meter = record.meter
        for outcome in sorted(found, key=lambda one: record.key(one.actions, one.reward)):
            if not record.would_take(outcome.actions, outcome.reward):
                continue
            if not await self.assembles(outcome.actions):
                unassembled.append(outcome)
                continue
            late = meter.seconds is not None and meter.elapsed > OVERTIME * meter.seconds
            given_up = bool(wrong) and (late or (len(wrong) >= MOST_WRONG and meter.out_of_time))
            if (given_up and outcome.state not in self._known) or not await self.is_right(
                outcome.actions, outcome.state
            ):
                wrong.append(outcome)
            else:
                record.offer(outcome.actions, outcome.reward)
        return wrong + unassembled

    def checks(self) -> Checks:
        """Return what was done so far."""
        found, counts = self._reference, (self._runs, self._wrong, self._seconds)
        return Checks(found.behaviour, found.reason, *counts, tuple(self._undefined), self._broken, self._unwatched)

    async def close(self) -> None:
        """Close the environments in which programs are run and assembled."""
        await self._assembler.close()
        await self._run_no_more()

    async def _run_no_more(self) -> None:
        env, self._env = self._env, None
        await close_all([env] if env is not None else [])

    async def explain(self) -> None:
        """Look for undefined behaviour if programs were broken, and nobody has looked yet."""
        if self._wrong and not self._undefined and self._env is not None:
            benchmark = self._reference.benchmark
            assert benchmark is not None
            async with await bare_sibling(self._searched) as env:
                signs = await undefined(env, benchmark)
            self._undefined += signs.found
            self._unwatched = signs.unwatched

    async def is_right(self, actions: tuple[str, ...], state: int) -> bool:
        """Return whether a program does what the reference does; True where programs cannot be run."""
        if self._env is None or not actions:
            return True
        if state not in self._known:
            started = time.monotonic()
            self._known[state] = right = not await self._problem(self._env, self._finished(actions))
            self._runs += 1
            if not right:
                self._wrong += 1
                self._broken = self._broken or actions
            self._seconds += time.monotonic() - started
        return self._known[state]

    async def _problem(self, env: Env, actions: tuple[str, ...]) -> str:
        """Return what a program does wrong, "" if nothing."""
        (candidate,) = await runs_of(env, [actions], self._name)
        if candidate.error is None:
            runs = candidate.observation[0]
            if self._reference.differences(runs):
                self._reference = await run_again(env, self._reference)
            return in_words(self._reference.differences(runs))
        try:
            if isinstance(candidate.error, WorkerFailure) and candidate.error.is_of_machine:
                raise candidate.error
            await env.reset()
            await env.observe(self._name)
        except AiocgError as error:  # not the program's fault: a disk is full, or a box cannot be made any more
            self._reference = Reference(Behaviour.NOT_RUN, f"it can no longer be run: {first_line(error)}")
            await self._run_no_more()
            return ""
        return first_line(candidate.error)

    async def _look_for_undefined(self) -> None:
        """Take note of signs of undefined behaviour that a compiler warns of, and of its traps."""
        benchmark = self._searched.benchmark
        if WARNINGS not in self._searched.observation_spaces:
            return
        await self._watched(benchmark, lambda env: env.observe(WARNINGS))
        known = self._reference.benchmark
        trapping = known.recompiled(TRAPPING) if known is not None and self._reference.right else None
        if trapping is not None:
            await self._watched(trapping, self._trapped)

    async def _watched(self, benchmark: Benchmark, look: Callable[[Env], Any]) -> None:
        """Add what is seen of a form of the program; nothing, where that does not compile."""
        async with await bare_sibling(self._searched) as env:
            try:
                await env.reset(benchmark=benchmark)
                self._undefined += await look(env)
            except (DatasetError, ServiceError):
                return

    async def _trapped(self, env: Env) -> list[str]:
        problem = in_words(self._reference.differences(await env.observe(self._name)))
        return [f"UndefinedBehaviorSanitizer stops it: {problem}"] if problem else []


class _Assembler:
    """Generates code for candidates of a program with inline assembly, if their cost needs none.

    Passes may duplicate a label of inline assembly, and then the program no longer assembles.

    Args:
        env: the environment that is searched; only siblings of it are used.
    """

    def __init__(self, env: Env) -> None:
        self._searched = env
        reward = env.reward_spaces.get(env.reward_space or "")
        self._needed = getattr(reward, "cost", "") == NEEDS_NO_CODE
        self._failed = 0
        self._env: Env | None = None  # at the start of an episode, if candidates are to be assembled
        self._begun = False
        self._turn = anyio.Lock()

    async def assembles(self, actions: Sequence[str]) -> bool:
        """Return whether code can be generated for what actions make of the program; True where nobody asks."""
        async with self._turn:
            if not self._begun:
                await self._begin()
            if self._env is None or not actions:
                return True
            return self._failed < MOST_UNASSEMBLED and await self._try(self._env, tuple(actions))

    async def close(self) -> None:
        """Close the environment in which code is generated."""
        env, self._env = self._env, None
        await close_all([env] if env is not None else [])

    async def _begin(self) -> None:
        """Find out whether there is anything to assemble."""
        self._begun = True
        if not self._needed:
            return
        self._env = env = await bare_sibling(self._searched)
        try:
            await env.reset()
            if " asm " in await env.observe(TEXT):
                await env.observe(CODE)
                return
        except ServiceError:  # there is no code for the program as it is
            pass
        await self.close()

    async def _try(self, env: Env, actions: tuple[str, ...]) -> bool:
        try:
            (candidate,) = await env.expand_texts([actions], observation_spaces=[CODE])
            works = candidate.error is None
        except ServiceError:
            await env.reset()
            works = False
        self._failed += not works
        return works
