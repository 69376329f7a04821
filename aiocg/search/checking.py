"""Running a program before a search believes that it is the best, and comparing it with the unoptimised one.

A search that maximises a size alone finds out what a compiler makes of undefined behaviour: the smallest program is one
that does something else. So each new best is run first, and a list of actions that breaks the program has failed.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.recipe import BenchmarkProgram
from aiocg.env.env import Env
from aiocg.errors import AiocgError, EnvClosed, ResetNeeded, ServiceError, SessionLost
from aiocg.search.result import Checks, Record
from aiocg.search.tuner import Outcome
from aiocg.states.executions import PLAIN, Run, differences, faults

__all__ = ["Checker"]

SLOWER = 10.0  # times as long as the unoptimised program, after which a program is stopped
LEAST = 5.0  # seconds that it may take in any case
MOST_WRONG = 3  # broken programs that are run when the time is up
COMPARING = ("loops", "loop_tool")  # workers that compare what a kernel computes before they measure it
TRAPPING = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")  # as no library is needed for it
WARNINGS = "undefined_behaviour"  # the observation of a compiler that warns of it
USUAL = "O2"  # the level whose program is compared with the unoptimised one


class Checker:
    """Runs what a search has found: the benchmark's first run, which is its shortest.

    Args:
        env: the environment that is searched; only siblings of it are used.
    """

    def __init__(self, env: Env) -> None:
        self._searched = env
        self._name = next((name for name in PLAIN if name in env.observation_spaces), "")
        self._env: Env | None = None  # at the start of an episode, while programs can be run
        self._program: BenchmarkProgram | None = None
        self._expected: Sequence[Run] = ()
        self._known: dict[int, bool] = {}  # by state
        self._reason = ""
        self._undefined: list[str] = []
        self._runs = self._wrong = 0
        self._seconds = 0.0

    async def begin(self, levels: Mapping[str, tuple[str, ...]]) -> None:
        """Run the unoptimised program, and look for signs that its behaviour is undefined.

        Args:
            levels: the compiler's own levels, by name.
        """
        started = time.monotonic()
        program = self._searched.benchmark.program
        try:
            if self._searched.spec.worker in COMPARING:
                return
            if not self._name:
                self._reason = f"{self._searched.spec.id} does not run programs"
            elif program is None or not program.runs:
                self._reason = "it has no inputs to run it on"
            else:
                await self._run_unoptimised(self._searched.benchmark, program)
        except (DatasetError, AiocgError, OSError) as error:
            self._reason = f"the program as it is cannot be run: {_first_line(error)}"
        if self._reason:
            await self.close()
        await self._look_for_undefined(levels)
        self._seconds += time.monotonic() - started

    async def offer(self, record: Record, found: Sequence[Outcome]) -> list[Outcome]:
        """Offer outcomes to a record, the best first; what would be a new best is run before.

        When the time is up, only a few broken programs are run, and what is left then is not believed.

        Args:
            record: keeps the best.
            found: outcomes that have not failed.

        Returns:
            Those whose programs do something else than the unoptimised one, or are not believed.
        """
        wrong: list[Outcome] = []
        for outcome in sorted(found, key=lambda one: record.key(one.actions, one.reward)):
            if not record.would_take(outcome.actions, outcome.reward):
                continue
            given_up = len(wrong) >= MOST_WRONG and record.meter.out_of_time
            if given_up or not await self.is_right(outcome.actions, outcome.state):
                wrong.append(outcome)
            else:
                record.offer(outcome.actions, outcome.reward)
        return wrong

    def checks(self) -> Checks:
        """Return what was done so far."""
        return Checks(not self._reason, self._reason, self._runs, self._wrong, self._seconds, tuple(self._undefined))

    async def close(self) -> None:
        """Close the environment in which programs are run."""
        env, self._env = self._env, None
        if env is not None:
            with anyio.CancelScope(shield=True):
                await env.close()

    async def _run_unoptimised(self, benchmark: Benchmark, program: BenchmarkProgram) -> None:
        name = next(iter(program.carried or program.runs))
        self._env = env = await self._sibling()
        await env.reset(benchmark=benchmark.with_runs([name]))
        started = time.monotonic()
        first = await env.observe(self._name)
        run = program.runs[name]
        patience = min(run.timeout, max(LEAST, SLOWER * (time.monotonic() - started)))
        self._program = dataclasses.replace(
            program, runs={name: dataclasses.replace(run, timeout=patience)}, carried=None
        )
        await env.reset(benchmark=benchmark.replace(program=dataclasses.replace(self._program, measured="")))
        self._expected = again = await env.observe(self._name)
        if not first:
            self._reason = "the program cannot be built here: its tools are missing"
        elif wrong := faults(program.runs, first):
            self._reason = f"the program as it is does not do what its benchmark says: {wrong[0].type}"
        elif self._differs(first, again):
            self._reason = "what the program does differs from one time to the next"

    async def _sibling(self) -> Env:
        env = await self._searched.sibling()
        env.observation_space = env.reward_space = None
        return env

    async def is_right(self, actions: tuple[str, ...], state: int) -> bool:
        """Return whether a program does what the unoptimised one does; True where programs cannot be run."""
        if self._env is None or not actions:
            return True
        if state not in self._known:
            started = time.monotonic()
            self._known[state] = right = not await self._problem(self._env, actions)
            self._runs += 1
            self._wrong += not right
            self._seconds += time.monotonic() - started
        return self._known[state]

    async def _problem(self, env: Env, actions: tuple[str, ...]) -> str:
        """Return what a program does wrong, "" if nothing."""
        try:
            (candidate,) = await env.expand_texts([actions], observation_spaces=[self._name])
        except (ResetNeeded, EnvClosed, SessionLost):  # its worker died
            await env.reset()
            (candidate,) = await env.expand_texts([actions], observation_spaces=[self._name])
        if candidate.error is not None:
            return _first_line(candidate.error)
        return self._differs(self._expected, candidate.observation[0])

    def _differs(self, expected: Sequence[Run], actual: Sequence[Run]) -> str:
        assert self._program is not None
        return ", ".join(one.type for one in differences(expected, actual, self._program.runs))

    async def _look_for_undefined(self, levels: Mapping[str, tuple[str, ...]]) -> None:
        """Take note of signs of undefined behaviour: warnings, and runs that differ."""
        benchmark = self._searched.benchmark
        if WARNINGS in self._searched.observation_spaces:
            await self._watched(benchmark, lambda env: env.observe(WARNINGS))
        if self._env is None:
            return
        if USUAL in levels and (problem := await self._problem(self._env, levels[USUAL])):
            self._undefined.append(f"at -{USUAL} it does something else than unoptimised: {problem}")
        if WARNINGS in self._searched.observation_spaces:  # LLVM's programs are watched by `env.validate`
            assert self._program is not None
            trapping = benchmark.replace(program=self._program).recompiled(TRAPPING)
            if trapping is not None:
                await self._watched(trapping, self._trapped)

    async def _watched(self, benchmark: Benchmark, look: Callable[[Env], Any]) -> None:
        """Add what is seen of a form of the program; nothing, where that does not compile."""
        async with await self._sibling() as env:
            try:
                await env.reset(benchmark=benchmark)
                self._undefined += await look(env)
            except (DatasetError, ServiceError):
                return

    async def _trapped(self, env: Env) -> list[str]:
        problem = self._differs(self._expected, await env.observe(self._name))
        return [f"UndefinedBehaviorSanitizer stops it: {problem}"] if problem else []


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
