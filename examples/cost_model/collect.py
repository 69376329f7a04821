"""Logs states, transitions and observations of generated programs: in each state of a walk, every action is tried.

Run it in examples/: python -m cost_model.collect states.db --states 100000
It stops at any time (--seconds, Ctrl-C), and goes on with the next program when it is run again.
"""

import argparse
import asyncio
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import aiocg
from aiocg.transitions import Transitions

OBSERVED = ["ProgramlArrays", "InstCount", "Autophase"]
LARGEST = 700  # instructions of a state that is gone on from
SIZES = (60, 120, 200, 350, 500)


def programs() -> Iterator[str]:
    """Name programs without an end, none of which is in a set that models are judged on."""
    for seed in range(1_000_000):
        yield f"generator://aiocg-v0/{seed}?size={SIZES[seed % len(SIZES)]}"
        yield f"generator://csmith-v0/{seed}?max-funcs=2&max-block-size=2&max-block-depth=2"


async def walk(env: aiocg.Env, uri: str, depth: int, seen: set[int]) -> None:
    """Try all actions in each state of a walk, and go on with one that does something: a good one, or any."""
    rng = np.random.default_rng(zlib.crc32(uri.encode()))
    await env.reset(benchmark=uri)
    if await env.observe("IrInstructionCount") > LARGEST:
        return
    for number in range(depth):
        if number == 0 and rng.random() < 0.25:  # searches may begin after -Oz, so a part of the walks does
            await env.apply(["default<Oz>"])
        found = await env.expand(
            range(len(env.action_space.names)), observation_spaces=[*OBSERVED, "IrInstructionCount"]
        )
        seen.update(one.state for one in found if one.error is None)
        useful = [one for one in found if one.error is None and not one.had_no_effect]
        useful = [one for one in useful if one.observation[-1] <= LARGEST]
        if not useful:
            break
        gains = np.array([one.reward for one in useful])
        likely = np.exp((gains - gains.max()) / (0.03 if rng.random() < 0.6 else 10.0))
        await env.step(useful[rng.choice(len(useful), p=likely / likely.sum())].actions)


async def collect(path: Path, states: int, seconds: float, depth: int, workers: int) -> None:
    """Walk from one program after the other, as many at a time as there are workers, until there are enough states."""
    done, seen = set[str](), set[int]()
    if path.exists():
        with Transitions(path) as known:
            done, seen = {uri for uri, _ in known.benchmarks()}, known.observed_states(OBSERVED[0])
    started, names = time.monotonic(), (uri for uri in programs() if uri not in done)
    async with aiocg.Runtime(workers=workers) as runtime:
        runtime.log_to(path, observations=OBSERVED)

        async def work() -> None:
            env = await runtime.make("llvm-ic-v0", benchmark=next(names))
            while (spent := time.monotonic() - started) < seconds and len(seen) < states:
                uri = next(names)
                print(f"{spent:6.0f} s {len(seen):7} states  {uri}", flush=True)
                try:
                    await walk(env, uri, depth, seen)
                except aiocg.AiocgError as error:
                    print(f"{uri}: {error}")

        await asyncio.gather(*(work() for _ in range(workers)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--states", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--depth", type=int, default=8)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(collect(given.path, given.states, given.seconds, given.depth, given.workers))
