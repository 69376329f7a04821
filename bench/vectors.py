"""Steps per second of a vector of environments: ours, beside Gymnasium's two over the same single environments.

All play the same random actions. Gymnasium's `SyncVectorEnv` steps one environment after the other; its
`AsyncVectorEnv` has a process for each, and so here one for each one's worker, too.

A second part has one environment among 64 whose steps take 10 ms: `step` waits for it each time, `send` and `recv` do
not.
"""

import asyncio
import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

import aiocg.gym
import aiocg.testing
from bench.measure import Effort, Results, Side, alternate, ratios
from bench.programs import SMALLEST

COUNTS = (8, 64, 512)
EPISODE = 20  # steps
GIB = 1 << 30
PROCESS_BYTES = 0.4 * GIB  # of one of Gymnasium's processes and its worker
NOTHING, INCREMENT, NAP = 0, 1, 11  # actions of scripted-v0
UNEVEN = 64  # environments
SHARE = 16  # how many of them are received at a time

KINDS = (
    ("no compiler", {"environment": "scripted-v0", "observation_space": "vector"}),
    (SMALLEST, {"environment": "llvm-autophase-ic-v0", "benchmark": SMALLEST}),
)


class OwnRuntime(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment with a runtime of its own, which ends with it."""

    def __init__(self, settings: dict[str, Any]) -> None:
        import aiocg.testing  # the process that this is made in may not have it yet

        self._runtime = aiocg.gym.SyncRuntime(workers=1)
        super().__init__(single(self._runtime, settings))

    def close(self) -> None:
        """End the environment and its worker."""
        super().close()
        self._runtime.close()


def single(runtime: aiocg.gym.SyncRuntime, settings: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """Make one environment whose episodes have a limit."""
    arguments = {name: value for name, value in settings.items() if name != "environment"}
    return gymnasium.wrappers.TimeLimit(runtime.make(settings["environment"], **arguments), EPISODE)


async def measure(effort: Effort) -> Results:
    """Let the vectors take turns, for each kind of environment and each number of them."""
    results = Results()
    for name, settings in KINDS:
        for count in effort.choose(COUNTS, COUNTS[:2]):
            await _compare(results, effort, name, settings, count)
    await _uneven(results, effort)
    results.note(
        f"Random actions, the same for all; episodes of {EPISODE} steps. Ours and SyncVectorEnv use the default number "
        "of workers; AsyncVectorEnv has a process and a worker for each environment."
    )
    return results


async def _compare(results: Results, effort: Effort, name: str, settings: dict[str, Any], count: int) -> None:
    with aiocg.gym.SyncRuntime() as one, aiocg.gym.SyncRuntime() as two:
        arguments = {key: value for key, value in settings.items() if key != "environment"}
        vectors: dict[str, Any] = {
            "ours": one.make_vec(settings["environment"], count, max_episode_steps=EPISODE, **arguments),
            "SyncVectorEnv": SyncVectorEnv([functools.partial(single, two, settings)] * count),
        }
        reason = _why_not_async(effort, count)
        if not reason:
            vectors["AsyncVectorEnv"] = await asyncio.to_thread(_in_processes, settings, count)
        try:
            rounds = effort.choose(7, 2)
            steps = effort.choose(max(4 * EPISODE * 8 // count, 4), max(2 * 8 // count, 1) * 2)
            rng = np.random.default_rng(0)
            highest = 4 if name == "no compiler" else len(vectors["ours"].single_action_space.names)
            actions = [rng.integers(0, highest, (steps, count)) for _ in range(rounds)]
            samples = await alternate([_player(vector, actions) for vector in vectors.values()], rounds)
        finally:
            for vector in vectors.values():
                await asyncio.to_thread(vector.close)
    for (side, _), rates in zip(vectors.items(), samples, strict=True):
        results.add(f"{name}, {count} envs: {side}", rates, "steps/s")
    for (side, _), rates in list(zip(vectors.items(), samples, strict=True))[1:]:
        results.add(f"{name}, {count} envs: ours, times {side}", ratios(samples[0], rates), "x")
    results.add(f"{name}, {count} envs: ours, per step", [1e6 / rate for rate in samples[0]], "µs")
    note = f"No AsyncVectorEnv of {count}: {reason}."
    if reason and note not in results.notes:
        results.note(note)


def _why_not_async(effort: Effort, count: int) -> str:
    """Return why there is no AsyncVectorEnv of so many processes here, nothing if there can be."""
    if effort.quick:
        return "its processes take too long to start for a quick run"
    processors = len(os.sched_getaffinity(0))
    if count > 8 * processors:
        return f"{2 * count} processes would share {processors} processors"
    needed, there = count * PROCESS_BYTES, _memory_available()
    if needed > there:
        return f"its {2 * count} processes need some {needed / GIB:.0f} GiB, and there are {there / GIB:.0f}"
    return ""


def _in_processes(settings: dict[str, Any], count: int) -> AsyncVectorEnv[Any, Any]:
    """Make Gymnasium's vector of processes; they cannot import this package, which hides itself (see `bench`)."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return AsyncVectorEnv([functools.partial(OwnRuntime, settings)] * count, context="spawn")


def _memory_available() -> int:
    """Return how many bytes processes can still use."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0]) * 1024


def _player(vector: Any, rounds: Sequence[Any]) -> Side[float]:
    """Return what plays the next round and returns the steps per second."""
    turn = iter(rounds)
    vector.reset(seed=0)

    def play(actions: Any) -> float:
        started = time.perf_counter()
        for row in actions:
            vector.step(row)
        return float(actions.size / (time.perf_counter() - started))

    async def run() -> float:
        return await asyncio.to_thread(play, next(turn))

    return run


# ------------------------------------------------------------------------------------------------- uneven


async def _uneven(results: Results, effort: Effort) -> None:
    """Compare ways to step environments of which the first is slow."""
    seconds = effort.choose(1.0, 0.15)
    with aiocg.gym.SyncRuntime(workers=2) as one, aiocg.gym.SyncRuntime(workers=2) as two:
        sides = [_timed(_together, one, seconds), _timed(_as_ready, two, seconds)]
        together, as_ready = await alternate(sides, effort.choose(7, 2))
    name = f"one of {UNEVEN} takes 10 ms"
    results.add(f"{name}: step", together, "steps/s")
    results.add(f"{name}: send and recv(min_ready={SHARE})", as_ready, "steps/s")
    results.add(f"{name}: send and recv, times step", ratios(as_ready, together), "x")
    results.note("The slow environment shares one of two workers with half of the others, which have to wait for it.")


def _timed(
    play: Callable[[aiocg.gym.CompilerVectorEnv, float], int], runtime: aiocg.gym.SyncRuntime, seconds: float
) -> Side[float]:
    vector = runtime.make_vec("scripted-v0", UNEVEN, observation_space="vector")

    def measured() -> float:
        vector.reset()
        started = time.perf_counter()
        steps = play(vector, started + seconds)
        return steps / (time.perf_counter() - started)

    async def run() -> float:
        return await asyncio.to_thread(measured)

    return run


def _together(vector: aiocg.gym.CompilerVectorEnv, end: float) -> int:
    actions = np.where(np.arange(UNEVEN) == 0, NAP, INCREMENT)
    steps = 0
    while time.perf_counter() < end:
        vector.step(actions)
        steps += UNEVEN
    return steps


def _as_ready(vector: aiocg.gym.CompilerVectorEnv, end: float) -> int:
    vector.send(np.where(np.arange(UNEVEN) == 0, NAP, INCREMENT))
    steps = 0
    while time.perf_counter() < end:
        *_, infos = vector.recv(min_ready=SHARE)
        ids = infos["env_id"]
        steps += len(ids)
        vector.send(np.where(ids == 0, NAP, INCREMENT), ids)
    return steps
