"""One greedy step, every action tried from one state: `expand`, beside fork, step and close for each action.

Three runtimes of one worker each, so that none profits from what another's worker remembers, and each round tries a
state that none has seen. That all find the same is asserted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import aiocg
from bench.measure import MILLI, Effort, Results, alternate, ratios
from bench.programs import PASSES, SEVERAL

Outcome = tuple[int, float | None, bool]  # state, reward, whether it failed
Try = Callable[[aiocg.Env, Sequence[int]], Awaitable[list[Outcome]]]


async def by_expand(env: aiocg.Env, actions: Sequence[int]) -> list[Outcome]:
    """Try all actions in one message."""
    return [
        (found.state, found.reward, False) if found.error is None else (0, None, True)
        for found in await env.expand(actions)
    ]


async def by_forks(env: aiocg.Env, actions: Sequence[int]) -> list[Outcome]:
    """Try one action after another on forks."""
    return [await _on_fork(env, action) for action in actions]


async def by_concurrent_forks(env: aiocg.Env, actions: Sequence[int]) -> list[Outcome]:
    """Try all actions on forks at once."""
    return await asyncio.gather(*(_on_fork(env, action) for action in actions))


async def _on_fork(env: aiocg.Env, action: int) -> Outcome:
    child = await env.fork()
    _, reward, terminated, _, info = await child.step(action)
    await child.close()
    return (0, None, True) if terminated else (info["state"], reward, False)


class Trial:
    """One way to try all actions, on an environment of its own."""

    def __init__(self, env: aiocg.Env, way: Try) -> None:
        self.env = env
        self.outcomes: list[list[Outcome]] = []
        self._way = way
        self._steps = 0

    async def run(self) -> float:
        """Try all actions, time that, and move on to a new state."""
        actions = range(len(self.env.action_space.names))
        started = time.perf_counter()
        outcomes = await self._way(self.env, actions)
        elapsed = time.perf_counter() - started
        self.outcomes.append(outcomes)
        await self.env.step(PASSES[self._steps])
        self._steps += 1
        return elapsed * MILLI


async def measure(effort: Effort) -> Results:
    """Let the ways take turns on several programs."""
    results = Results()
    for program in effort.choose(SEVERAL, SEVERAL[:1]):
        await _measure_program(results, program, effort.choose(7, 2))
    results.note("Every round starts from a state that no side has tried; all sides found the same states and rewards.")
    return results


async def _measure_program(results: Results, program: str, rounds: int) -> None:
    async with aiocg.Runtime(workers=1) as one, aiocg.Runtime(workers=1) as two, aiocg.Runtime(workers=1) as three:
        ways = ((one, by_expand), (two, by_forks), (three, by_concurrent_forks))
        trials = [Trial(await _ready(runtime, program), way) for runtime, way in ways]
        expand, forks, concurrent = await alternate([trial.run for trial in trials], rounds)
    for trial in trials[1:]:
        assert trial.outcomes == trials[0].outcomes, f"{program}: the ways differ"
    actions = len(trials[0].outcomes[0])
    results.add(f"{program}, {actions} actions, expand", expand, "ms")
    results.add(f"{program}, fork, step and close, in turn", forks, "ms")
    results.add(f"{program}, fork, step and close, all at once", concurrent, "ms")
    results.add(f"{program}, forks in turn, times expand", ratios(forks, expand), "x")
    results.add(f"{program}, forks at once, times expand", ratios(concurrent, expand), "x")


async def _ready(runtime: aiocg.Runtime, program: str) -> aiocg.Env:
    env = await runtime.make("llvm-v0", benchmark=program, reward_space="IrInstructionCountOz")
    await env.reset()
    return env
