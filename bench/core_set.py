"""Choose the sequences of passes that the search `functionwise` tries first on every function: its core set.

It optimises the functions of training programs, evaluates the sequences that were found on all functions of all these
programs, and chooses, one after the other, the sequence that takes most away from what those before leave (greedy
maximisation of a monotone submodular function: Nemhauser, Wolsey and Fisher, 1978). The programs are from the training
part of sdist-v0 and from the generator aiocg-v0; none that results are reported on is among them.

    python -m bench.core_set --costs FunctionInstructionCounts --output core.txt
"""

import argparse
import asyncio
import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import aiocg
import aiocg.telemetry
from aiocg.datasets import default_datasets
from aiocg.errors import AiocgError
from aiocg.search._functionwise import BASES, FILES, core, costs_of
from aiocg.search._population import Passes, Population

SMALLEST, LARGEST = 40, 5_000  # instructions of a training program
CHUNK = 8  # proposals in one message
MOST_GENERATED = 1 << 20


class Site(NamedTuple):
    """A training program at one of the bases.

    Attributes:
        env: which is there.
        costs: instructions of each function.
    """

    env: aiocg.Env
    costs: dict[str, float]


def training_programs(seed: int) -> list[str]:
    """Return URIs to train on, in random order, three of four of which are files of real projects."""
    files = [str(uri) for uri in default_datasets()["sdist-v0"].split(seed=0)["train"].benchmark_uris()]
    draw = random.Random(seed)
    draw.shuffle(files)
    generated = (f"generator://aiocg-v0/{draw.randrange(MOST_GENERATED) + 1000}" for _ in itertools.count())
    return [uri for i in range(0, len(files), 3) for uri in (*files[i : i + 3], next(generated))]


async def sites(runtime: aiocg.Runtime, uris: list[str], count: int, observation: str) -> AsyncIterator[Site]:
    """Give so many programs, each at the first two of the bases that the search has."""
    for uri in uris:
        try:
            env = await runtime.make("llvm-v0", benchmark=uri)
            await env.reset()
            if not SMALLEST <= await env.observe("IrInstructionCount") <= LARGEST:
                continue
            found = [await _at(env, base, observation) for base in BASES[:2]]
        except AiocgError as error:
            print(f"{uri}: {error}", file=sys.stderr)
            continue
        for site in found:
            yield site
        count -= 1
        if not count:
            return


async def _at(env: aiocg.Env, actions: tuple[str, ...], observation: str) -> Site:
    child = await env.fork()
    await child.apply(actions)
    names, costs = await child.observe("Functions", observation)
    return Site(child, dict(zip(names, map(float, costs), strict=True)))


async def mine(site: Site, evaluations: int, seed: int, observation: str) -> Counter[Passes]:
    """Optimise the functions of a program; return what the best passes of each save, as parts of the program."""
    population, total = Population(site.costs, (seed,), core("FunctionInstructionCounts")), sum(site.costs.values())
    for _ in range(evaluations // CHUNK):
        proposals = [population.propose() for _ in range(CHUNK)]
        for proposal, (costs, _) in zip(
            proposals, await costs_of(site.env, list(site.costs), observation, proposals), strict=True
        ):
            population.learn({name: proposal[name] for name in costs if name in proposal}, costs)
    found: Counter[Passes] = Counter()
    for name, function in population.functions.items():
        found[function.best] += (site.costs[name] - function.cost) / total  # type: ignore[assignment]
    return found


async def savings(site: Site, pool: list[Passes], observation: str) -> Any:
    """Return what each sequence saves of each function, as parts of the program: an array (sequence, function)."""
    names, before = list(site.costs), np.array(list(site.costs.values()))
    rows = []
    for start in range(0, len(pool), CHUNK):
        proposals = [dict.fromkeys(names, passes) for passes in pool[start : start + CHUNK]]
        for costs, _ in await costs_of(site.env, names, observation, proposals):
            rows.append([costs.get(name, cost) for name, cost in site.costs.items()])
    return np.maximum(before - np.array(rows), 0) / max(before.sum(), 1)


def choose(saved: Any, count: int) -> list[int]:
    """Return the rows of a matrix that, one after the other, add most to the sum of the columns' maxima."""
    best, chosen = np.zeros(saved.shape[1]), []
    for _ in range(count):
        gains = np.maximum(saved - best, 0).sum(axis=1)
        chosen.append(int(gains.argmax()))
        best = np.maximum(best, saved[chosen[-1]])
    return chosen


async def make(options: argparse.Namespace) -> list[Passes]:
    """Return the core set."""
    seed, workers, size, observation = options.seed, options.workers, options.size, options.costs
    started, found, all_sites = time.monotonic(), Counter[Passes](), []
    async with aiocg.Runtime(workers=workers) as runtime:
        async for site in sites(runtime, training_programs(seed), options.programs, observation):
            if site.costs:
                all_sites.append(site)
        print(f"{len(all_sites)} programs at bases, {time.monotonic() - started:.0f} s", file=sys.stderr)
        limit = asyncio.Semaphore(2 * workers)

        async def limited(job: Any) -> Any:
            async with limit:
                return await job

        jobs = [
            limited(mine(site, options.evaluations, seed + number, observation))
            for number, site in enumerate(all_sites)
        ]
        for number, job in enumerate(asyncio.as_completed(jobs)):
            found += await job
            if number % 20 == 0:
                print(f"mined {number + 1} of {len(jobs)}, {time.monotonic() - started:.0f} s", file=sys.stderr)
        pool = [passes for passes, _ in found.most_common(options.pool)] + list(core("FunctionInstructionCounts"))
        print(f"{len(found)} sequences, of which {len(pool)} are tried on all", file=sys.stderr)
        parts = []
        for number, job in enumerate(
            asyncio.as_completed([limited(savings(site, pool, observation)) for site in all_sites])
        ):
            parts.append(await job)
            if number % 20 == 0:
                print(f"tried on {number + 1} of {len(jobs)}, {time.monotonic() - started:.0f} s", file=sys.stderr)
    saved = np.concatenate(parts, axis=1)
    chosen = choose(saved, size)
    for count in (1, 2, 4, 8, 16, 32, 64):
        if count <= size:
            part = saved[chosen[:count]].max(axis=0).sum() / len(all_sites)
            print(f"{count} sequences save {100 * part:.2f} % of a program in the mean", file=sys.stderr)
    print(f"all of the pool save {100 * saved.max(axis=0).sum() / len(all_sites):.2f} %", file=sys.stderr)
    return [pool[index] for index in chosen]


def main() -> None:
    """Make the file."""
    aiocg.telemetry.configure(level="warning")
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--costs", choices=FILES, required=True, help="the observation of what functions cost")
    parser.add_argument("--programs", type=int, default=80, help="number of training programs")
    parser.add_argument("--pool", type=int, default=200, help="sequences that are evaluated on all functions")
    parser.add_argument("--evaluations", type=int, default=128, help="of each program at each base")
    parser.add_argument("--size", type=int, default=32, help="sequences to choose")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    chosen = asyncio.run(make(options))
    how = f"python -m bench.core_set --costs {options.costs} --programs {options.programs} --seed {options.seed}"
    lines = [
        f"# {how} --pool {options.pool} --evaluations {options.evaluations} --size {options.size}",
        *map(",".join, chosen),
    ]
    options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
